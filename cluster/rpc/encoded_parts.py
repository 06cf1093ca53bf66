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

    def __len__(self) -> int:
        """The number of parts whose bytes are held now."""
        return len(self._encoded)

    def bytes_of(self, part: Part) -> bytes:
        """The bytes of a part, which must not change while it exists."""
        encoded = self._encoded.get(id(part))
        if encoded is None:
            encoded = _Encoded(part, self._drop)
            encoded.key, encoded.data = id(part), self._encode(part)
            # Not before it is complete: others may look meanwhile, from another thread.
            self._encoded[id(part)] = encoded
        return encoded.data

    def size_of(self, parts: Iterable[Part]) -> int | None:
        """The bytes of these parts together; None if one of them is not encoded yet."""
        found = [self._encoded.get(id(part)) for part in parts]
        return None if None in found else sum(len(encoded.data) for encoded in found if encoded is not None)

    def _drop(self, encoded: _Encoded) -> None:
        del self._encoded[encoded.key]
