"""Requests and answers that cross a process border, in domain types.

An inbound request enters a node as `handle(context, request) -> response` with these types; the gRPC
servicers only convert. A request with a streamed answer is answered with an async iterator of responses.
Field names are those of Kafka's protocol. An answer's `error_code` is that of the whole request; items
carry their own.
"""
