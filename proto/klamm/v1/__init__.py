"""Messages (`*_pb2`) and stubs (`*_pb2_grpc`) of klamm's services, generated from the .proto files beside them."""
