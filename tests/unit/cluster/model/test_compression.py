"""Decompression within a bound, for every codec."""

import os
import struct
import zlib

import cramjam
import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from cluster.model.compression import (
    CompressionCodec,
    CompressionError,
    TooLargeError,
    decompress,
    find_codec,
    largest_size,
)

TEXT = b"the same text again and again, " * 5000 + os.urandom(1000)


def lz4_frame(**options: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(level=3, **{"content_checksum": False, "block_linked": False, **options})
    compressor.compress(TEXT)
    return bytes(compressor.finish())


VECTORS = {
    "none": (CompressionCodec.NONE, TEXT),
    "gzip": (CompressionCodec.GZIP, gzip_encode(TEXT)),
    "gzip of level 0": (CompressionCodec.GZIP, zlib.compress(TEXT, 0, wbits=31)),
    "snappy in xerial's blocks": (CompressionCodec.SNAPPY, snappy_encode(TEXT)),
    "raw snappy": (CompressionCodec.SNAPPY, bytes(snappy_encode(TEXT, xerial_compatible=False))),
    "lz4": (CompressionCodec.LZ4, lz4_encode(TEXT)),
    "lz4 with checksum": (CompressionCodec.LZ4, lz4_frame(content_checksum=True)),
    "zstd": (CompressionCodec.ZSTD, zstd_encode(TEXT)),
    "zstd of a large window": (CompressionCodec.ZSTD, bytes(cramjam.zstd.compress(TEXT, level=19))),
}


@pytest.mark.parametrize("name", VECTORS)
def test_every_codec_gives_back_what_was_compressed_up_to_the_bound(name: str) -> None:
    codec, data = VECTORS[name]
    assert bytes(decompress(codec, data, len(TEXT))) == TEXT
    assert bytes(decompress(codec, memoryview(data), 1 << 26)) == TEXT


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "none"])
def test_one_byte_above_the_bound_is_too_large(name: str) -> None:
    codec, data = VECTORS[name]
    with pytest.raises(TooLargeError, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(codec, data, len(TEXT) - 1)


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "none"])
def test_cut_off_or_followed_by_something_it_is_refused(name: str) -> None:
    codec, data = VECTORS[name]
    for changed in (b"", data[:1], data[:10], data[:-1], data + b"\0", data + b"more"):
        with pytest.raises(CompressionError):
            decompress(codec, changed, 1 << 26)


BOMBS = {
    CompressionCodec.GZIP: zlib.compress(bytes(1 << 28), wbits=31),
    CompressionCodec.SNAPPY: snappy_encode(bytes(1 << 26)),
    CompressionCodec.LZ4: lz4_encode(bytes(1 << 28)),
    CompressionCodec.ZSTD: zstd_encode(bytes(1 << 30)),
}


@pytest.mark.rule("R7.17")
@pytest.mark.parametrize("codec", BOMBS)
def test_a_bomb_is_stopped_at_the_bound(codec: CompressionCodec) -> None:
    with pytest.raises(TooLargeError):
        decompress(codec, BOMBS[codec], 1 << 24)


@pytest.mark.rule("R7.17")
def test_a_size_that_the_format_cannot_reach_is_refused_before_it_is_reserved() -> None:
    claims_4_gb = b"\xff\xff\xff\xff\x0f" + b"\0" * 20
    with pytest.raises(CompressionError, match="claims more bytes than the format allows"):
        decompress(CompressionCodec.SNAPPY, claims_4_gb, 1 << 30)
    assert largest_size(CompressionCodec.SNAPPY, 1000, 1 << 30) == 22_000
    assert largest_size(CompressionCodec.ZSTD, 1000, 1 << 30) == 1 << 30


def test_blocks_of_xerial_that_do_not_fit_are_refused() -> None:
    header = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    block = bytes(cramjam.snappy.compress_raw(b"abcd"))
    for rest in (b"\0\0", struct.pack(">i", -1) + block, struct.pack(">i", 0), struct.pack(">i", 99) + block):
        with pytest.raises(CompressionError):
            decompress(CompressionCodec.SNAPPY, header + rest, 1000)
    with pytest.raises(CompressionError, match="version"):
        decompress(CompressionCodec.SNAPPY, header[:-1] + b"\2" + struct.pack(">i", len(block)) + block, 1000)
    assert (
        bytes(decompress(CompressionCodec.SNAPPY, header + (struct.pack(">i", len(block)) + block) * 2, 1000))
        == b"abcdabcd"
    )


def test_attributes_name_the_codec() -> None:
    assert [find_codec(attributes) for attributes in (0, 1, 2, 3, 4, 5, 7, 8, 0x14, -1)] == [
        *(
            CompressionCodec.NONE,
            CompressionCodec.GZIP,
            CompressionCodec.SNAPPY,
            CompressionCodec.LZ4,
            CompressionCodec.ZSTD,
        ),
        *(None, None, CompressionCodec.NONE, CompressionCodec.ZSTD, None),
    ]
