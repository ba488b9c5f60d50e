"""Compressed bodies are decompressed in slices, up to limits; what cannot be read is refused."""

import asyncio
import gzip
import random
import zlib

import pytest

from leveret.mgmt.content_coding import (
    EXPANSION_BYTES_MIN,
    SLICE_BYTES,
    CodingError,
    TooLargeError,
    codings_of,
    decoded,
)

BYTES_MAX = 20_000_000
TEXT = b'{"name": "a queue"}' * 20
RANDOM = random.Random(1).randbytes(3 * SLICE_BYTES + 1)


def gzipped(data):
    """The same bytes at any time: they are in the names of tests."""
    return gzip.compress(data, mtime=0)


def raw_deflate(data):
    """Deflate without the head and the checksum that `deflate` should have."""
    writer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return writer.compress(data) + writer.flush()


def read(raw, *codings, bytes_max=BYTES_MAX):
    """What was compressed, and in how many steps it was found."""
    steps = 0

    async def give_way():
        nonlocal steps
        steps += 1

    return asyncio.run(decoded(raw, codings, bytes_max, give_way)), steps


@pytest.mark.parametrize(
    ("values", "codings"),
    [
        ((), []),
        (("identity",), []),
        (("gzip",), ["gzip"]),
        (("X-GZip",), ["gzip"]),
        (("deflate, gzip",), ["deflate", "gzip"]),
        (("deflate", " br "), ["deflate", "br"]),
        (("identity, gzip,",), ["gzip"]),
    ],
)
def test_the_codings_that_headers_name(values, codings):
    assert codings_of(values) == codings


@pytest.mark.parametrize("data", [b"", TEXT, RANDOM, bytes(EXPANSION_BYTES_MIN)])
@pytest.mark.parametrize(
    ("coding", "compress"),
    [("gzip", gzipped), ("deflate", zlib.compress), ("deflate", raw_deflate)],
)
def test_what_was_compressed(coding, compress, data):
    assert read(compress(data), coding)[0] == data


def test_what_was_not_compressed():
    assert read(TEXT) == (TEXT, 0)


def test_no_step_makes_more_than_a_slice():
    data = RANDOM * 10
    made, steps = read(zlib.compress(data), "deflate")
    assert made == data
    assert steps >= len(data) / SLICE_BYTES


@pytest.mark.parametrize(
    ("raw", "codings", "reason"),
    [
        (TEXT, ("br",), "its coding 'br' is not one of gzip, deflate"),
        (TEXT, ("zstd",), "its coding 'zstd' is not one of gzip, deflate"),
        (TEXT, ("gzip", "gzip"), r"it is compressed 2 times \(gzip, gzip\)"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 48, ("gzip",), "it is not valid gzip"),
        (TEXT, ("gzip",), "it is not valid gzip"),
        (b"\xff" * 48, ("deflate",), "it is not valid deflate"),
        (b"", ("gzip",), "the end of the compressed data is missing"),
        (gzipped(TEXT)[:-1], ("gzip",), "the end of the compressed data is missing"),
        (raw_deflate(TEXT)[:-2], ("deflate",), "the end of the compressed data is missing"),
        (gzipped(TEXT) + b"x", ("gzip",), "bytes follow the end"),
        (gzipped(TEXT) * 2, ("gzip",), "bytes follow the end"),
        (gzipped(RANDOM) + RANDOM, ("gzip",), "bytes follow the end"),
    ],
)
def test_what_cannot_be_read(raw, codings, reason):
    with pytest.raises(CodingError, match=reason):
        read(raw, *codings)


def test_a_size_over_the_limit():
    assert read(gzipped(TEXT), "gzip", bytes_max=len(TEXT))[0] == TEXT
    with pytest.raises(TooLargeError, match="more than 379 bytes"):
        read(gzipped(TEXT), "gzip", bytes_max=len(TEXT) - 1)


def test_what_expands_like_nothing_that_people_write():
    with pytest.raises(CodingError, match="expands to more than 100 times its size"):
        read(gzipped(bytes(EXPANSION_BYTES_MIN + 1)), "gzip")
