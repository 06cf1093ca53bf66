"""Every znode that klamm uses: its path, and encoding and decoding of its content in Kafka's JSON.

Decoders ignore unknown fields and raise MalformedZnodeError with path and content for malformed data; callers log it
and skip the znode. Encoder and decoder of a znode are side by side. Source: Kafka ZkData.scala.
"""
