"""Requests and responses between processes, as domain types.

An inbound request enters a node as `handle(context, request) -> response` with these types; the gRPC servicers only
convert. A request with a streamed response returns an async iterator of responses. Field names are those of Kafka's
protocol. A response's `error_code` is that of the whole request; items have their own.
"""
