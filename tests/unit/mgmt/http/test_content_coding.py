"""Compressed bodies are decompressed in slices, up to limits; what cannot be read is refused."""

import asyncio
import gzip
import random
import zlib

import pytest

from leveret.mgmt.http.content_coding import (
    EXPANSION_BYTES_MIN,
    MEMBERS_MAX,
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


@pytest.mark.parametrize(
    "members",
    [(TEXT, b"", TEXT), (RANDOM, TEXT, RANDOM), (b"",) * MEMBERS_MAX, (bytes(100_000),) * 4],
    ids=["texts", "random bytes", "nothing", "zeros"],
)
def test_several_members_of_gzip(members):
    raw = b"".join(gzipped(data) for data in members)
    assert read(raw, "gzip")[0] == b"".join(members)


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
        (gzipped(TEXT) + b"\x1f", ("gzip",), "bytes follow the end"),
        (gzipped(TEXT) + gzipped(TEXT)[:-1], ("gzip",), "the end of the compressed data is"),
        (gzipped(TEXT) + gzipped(TEXT)[:2], ("gzip",), "the end of the compressed data is missing"),
        (gzipped(TEXT) + b"\x1f\x8b\xff" * 9, ("gzip",), "it is not valid gzip"),
        (zlib.compress(TEXT) * 2, ("deflate",), "bytes follow the end"),
        (gzipped(b"") * (MEMBERS_MAX + 1), ("gzip",), "more than 10000 members of gzip"),
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


def test_the_limits_are_those_of_all_members_together():
    half = EXPANSION_BYTES_MIN // 2
    assert len(read(gzipped(bytes(half)) * 2, "gzip")[0]) == EXPANSION_BYTES_MIN
    with pytest.raises(CodingError, match="expands to more than 100 times its size"):
        read(gzipped(bytes(half)) * 3, "gzip")
    with pytest.raises(TooLargeError, match="more than 1000 bytes"):
        read(gzipped(bytes(500)) * 3, "gzip", bytes_max=1000)
