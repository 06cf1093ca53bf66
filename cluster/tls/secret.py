"""Wraps texts that must not be shown."""

from typing import Final

HIDDEN: Final = "(not shown)"


class Secret:
    """Holds a password or a private key. No log line, error, or document shows it: only `reveal` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, for the library that needs it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled, and so to be written by accident."""
        raise TypeError("a secret is not written")
