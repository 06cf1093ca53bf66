"""Keeps the bytes of parts that several messages share: encoded on first use, released together with the part."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar
from weakref import ref

Part = TypeVar("Part")


class _Encoded(ref[object]):
    __slots__ = ("data", "key")
    data: bytes
    key: int


class EncodedParts(Generic[Part]):
    """Keeps the bytes of parts that support weak references, under one encoding.

    A part is found by its identity: to compare the states of different batches would cost more than to encode them.
    """

    def __init__(self, encode: Callable[[Part], bytes]) -> None:
        self._encode = encode
        self._encoded: dict[int, _Encoded] = {}
        # One for all: a method is a new object each time that it is looked up.
        self._on_release = self._drop

    def __len__(self) -> int:
        """The number of parts whose bytes are held now."""
        return len(self._encoded)

    def bytes_of(self, part: Part) -> bytes:
        """The bytes of a part, which must not change while it exists."""
        key = id(part)
        encoded = self._encoded.get(key)
        if encoded is None:
            encoded = _Encoded(part, self._on_release)
            encoded.key, encoded.data = key, self._encode(part)
            # Not before it is complete: others may look meanwhile, from another thread.
            self._encoded[key] = encoded
        return encoded.data

    def size_of(self, parts: Iterable[Part]) -> int | None:
        """The bytes of these parts together; None if one of them is not encoded yet."""
        found = [self._encoded.get(id(part)) for part in parts]
        return None if None in found else sum(len(encoded.data) for encoded in found if encoded is not None)

    def _drop(self, encoded: _Encoded) -> None:
        del self._encoded[encoded.key]
