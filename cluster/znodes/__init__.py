"""Every znode klamm touches: its path, and its content to and from values, in Kafka's JSON.

Decoders ignore fields they do not know and raise MalformedZnodeError with path and bytes on anything they
cannot read; callers log it and skip the node. Encoders and decoders of one node stand side by side.
Source: Kafka ZkData.scala.
"""
