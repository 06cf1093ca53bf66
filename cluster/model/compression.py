"""Compresses the records of a batch, and decompresses them, never to more than a given number of bytes.

The bound holds while decompressing: the native decoders write into a buffer of that size, whose pages the system
provides as they are written, so a small input that claims gigabytes costs no more than the bound. They release the
interpreter's lock. Source: Kafka CompressionType, SnappyInputStream of xerial, KafkaLZ4BlockInputStream.
"""

import gzip
import mmap
import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam
from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode


class CompressionCodec(IntEnum):
    """The lowest three bits of a batch's attributes; 5 to 7 are unknown."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_MASK: Final = 0x07

Buffer = bytes | bytearray | memoryview

_GZIP_LEVEL: Final = 6
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_EXPANSION_MAX: Final = {CompressionCodec.GZIP: 1032, CompressionCodec.SNAPPY: 22, CompressionCodec.LZ4: 255}
"""Most bytes that one compressed byte can become. zstd has no such limit."""
_SMALLEST_BUFFER: Final = 4096

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"  # version, lowest compatible version
_XERIAL_BLOCK_SIZE: Final = Struct(">i")

_LZ4_HEADER: Final = Struct("<IBB")  # magic, flags, block descriptor
_LZ4_BLOCK_SIZE: Final = Struct("<I")
_LZ4_UNCOMPRESSED: Final = 0x8000_0000


class CompressionError(Exception):
    """The data cannot be decompressed."""


class TooLargeError(CompressionError):
    """The data decompress to more than the bound."""


class _BufferFullError(Exception):
    pass


def find_codec(attributes: int) -> CompressionCodec | None:
    """The codec in a batch's attributes, None for an unknown one."""
    number = attributes & CODEC_MASK
    return CompressionCodec(number) if number <= CompressionCodec.ZSTD else None


def largest_size(codec: CompressionCodec, size: int, limit: int) -> int:
    """The most bytes that `size` compressed bytes can become, at most `limit`."""
    expansion = _EXPANSION_MAX.get(codec)
    return limit if expansion is None else min(limit, max(_SMALLEST_BUFFER, size * expansion))


def decompress(codec: CompressionCodec, data: Buffer, limit: int) -> memoryview:
    """Decompress the whole of `data`, one stream without anything behind it, to at most `limit` bytes.

    Raises CompressionError; TooLargeError where the limit is exceeded.
    """
    view = memoryview(data)
    if codec is CompressionCodec.NONE:
        return view
    room = largest_size(codec, len(view), limit)
    try:
        return _DECODERS[codec](view, room)
    except _BufferFullError:
        if room < limit:
            raise CompressionError(f"{codec.name.lower()}: claims more bytes than the format allows") from None
        raise TooLargeError(f"more than {limit} bytes when decompressed ({codec.name.lower()})") from None
    except (zlib.error, cramjam.DecompressionError) as error:
        name = codec.name.lower()
        raise CompressionError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from None


def compress(codec: CompressionCodec, data: bytes) -> bytes:
    """Compress the records of a batch as Kafka's brokers do; the same bytes for the same data."""
    return _ENCODERS[codec](data)


def _gunzip(data: memoryview, room: int) -> memoryview:
    stream = zlib.decompressobj(_GZIP_FORMAT)
    decompressed = stream.decompress(data, room + 1)
    if len(decompressed) > room:
        raise _BufferFullError
    if not stream.eof:
        raise CompressionError("gzip: the stream is truncated")
    if stream.unused_data:
        raise CompressionError(f"gzip: {len(stream.unused_data)} bytes follow the stream")
    return memoryview(decompressed)


def _unsnap(data: memoryview, room: int) -> memoryview:
    """Blocks in xerial's framing, as Kafka's clients write them, or one raw block."""
    buffer = _new_buffer(room)
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return buffer[: _unsnap_block(data, buffer)]
    if bytes(data[: len(_XERIAL_HEADER)]) != _XERIAL_HEADER:
        raise CompressionError("snappy: the header is not that of version 1")
    position, written = len(_XERIAL_HEADER), 0
    while position < len(data):
        if len(data) - position < _XERIAL_BLOCK_SIZE.size:
            raise CompressionError("snappy: the size of a block is truncated")
        (size,) = _XERIAL_BLOCK_SIZE.unpack_from(data, position)
        position += _XERIAL_BLOCK_SIZE.size
        if not 0 < size <= len(data) - position:
            raise CompressionError(f"snappy: a block claims {size} bytes, {len(data) - position} are left")
        written += _unsnap_block(data[position : position + size], buffer[written:])
        position += size
    return buffer[:written]


def _unsnap_block(block: memoryview, into: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(block) > len(into):
        raise _BufferFullError
    return int(cramjam.snappy.decompress_raw_into(block, into))


def _unlz4(data: memoryview, room: int) -> memoryview:
    """Decompress one frame of independent blocks: Kafka's reader refuses dependent ones, and reads no second frame."""
    _check_lz4_frame(data)
    return _decompress_into(cramjam.lz4.decompress_into, data, room)


def _check_lz4_frame(data: memoryview) -> None:
    if len(data) < _LZ4_HEADER.size:
        raise CompressionError("lz4: the header is truncated")
    _, flags, _ = _LZ4_HEADER.unpack_from(data)
    if not flags & 0x20:
        raise CompressionError("lz4: blocks depend on one another, which Kafka does not support")
    block_checksum, content_checksum = 4 * (flags >> 4 & 1), 4 * (flags >> 2 & 1)
    position = _LZ4_HEADER.size + 8 * (flags >> 3 & 1) + 4 * (flags & 1) + 1
    while len(data) - position >= _LZ4_BLOCK_SIZE.size:
        (size,) = _LZ4_BLOCK_SIZE.unpack_from(data, position)
        position += _LZ4_BLOCK_SIZE.size
        if size == 0:
            break
        position += (size & ~_LZ4_UNCOMPRESSED) + block_checksum
    else:
        raise CompressionError("lz4: the frame is truncated")
    behind = len(data) - position - content_checksum
    if behind != 0:
        raise CompressionError(f"lz4: {behind} bytes follow the frame")


def _unzstd(data: memoryview, room: int) -> memoryview:
    return _decompress_into(cramjam.zstd.decompress_into, data, room)


def _decompress_into(decoder: Callable[[memoryview, memoryview], int], data: memoryview, room: int) -> memoryview:
    buffer = _new_buffer(room)
    try:
        return buffer[: int(decoder(data, buffer))]
    except cramjam.DecompressionError as error:
        # What Rust's write_all says when it cannot write any further.
        if "failed to write whole buffer" in str(error):
            raise _BufferFullError from None
        raise


def _new_buffer(size: int) -> memoryview:
    """Anonymous memory, unlike a bytearray's not touched before it is written; unmapped with its last view."""
    return memoryview(mmap.mmap(-1, size))


_DECODERS: Final[dict[CompressionCodec, Callable[[memoryview, int], memoryview]]] = {
    CompressionCodec.GZIP: _gunzip,
    CompressionCodec.SNAPPY: _unsnap,
    CompressionCodec.LZ4: _unlz4,
    CompressionCodec.ZSTD: _unzstd,
}
_ENCODERS: Final[dict[CompressionCodec, Callable[[bytes], bytes]]] = {
    CompressionCodec.NONE: bytes,
    CompressionCodec.GZIP: lambda data: gzip.compress(data, _GZIP_LEVEL, mtime=0),
    CompressionCodec.SNAPPY: snappy_encode,
    CompressionCodec.LZ4: lz4_encode,
    CompressionCodec.ZSTD: zstd_encode,
}
