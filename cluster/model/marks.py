"""What an annotation says of a field of a message besides its bound."""

from enum import Enum, auto


class Mark(Enum):
    """`Annotated[T, Mark.X]` marks a field."""

    NOT_SENT = auto()
    """No message has the field; only the last fields of a type may be left out."""
    CHECKED_BY_ITS_READER = auto()
    """The field has no bound: a malformed value is ignored, and never fails its request."""
