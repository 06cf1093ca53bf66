"""Bytes of parts that several messages share: encoded on first use and released together with the part."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

Part = TypeVar("Part")


class _Encoded(ref[object]):
    __slots__ = ("data", "key")
    data: bytes
    key: int


class EncodedParts(Generic[Part]):
    """The bytes of parts that support weak references, under one encoding.

    Found by identity: comparing the states of different batches would cost more than encoding them.
    """

    def __init__(self, encode: Callable[[Part], bytes]) -> None:
        self._encode = encode
        self._encoded: dict[int, _Encoded] = {}

    def __len__(self) -> int:
        """Number of parts that are held now."""
        return len(self._encoded)

    def bytes_of(self, part: Part) -> bytes:
        """The bytes of a part, which must not change as long as it exists."""
        encoded = self._encoded.get(id(part))
        if encoded is None:
            encoded = self._encoded[id(part)] = _Encoded(part, self._drop)
            encoded.key, encoded.data = id(part), self._encode(part)
        return encoded.data

    def _drop(self, encoded: _Encoded) -> None:
        del self._encoded[encoded.key]
