"""What can be wrong with a message of Kafka's protocol."""

from cluster.model.errors import ClusterError, ErrorCode


class MalformedMessageError(ClusterError):
    """Bytes are not the message they should be, or a message's value has no encoding. Names the field by its path."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, message: str, path: str, why: str) -> None:
        super().__init__(f"{message}: {path}: {why}" if path else f"{message}: {why}")
        self.message, self.path, self.why = message, path, why


class UnsupportedVersionError(ClusterError):
    """A message has no such version, or the version has no room for a value that was set."""

    code = ErrorCode.UNSUPPORTED_VERSION
