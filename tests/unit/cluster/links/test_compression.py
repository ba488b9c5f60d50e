"""Payloads come back from every method, and nothing that a peer sends makes more than it may."""

import random
import zlib

import pytest

from leveret.cluster.links import compression
from leveret.cluster.links.compression import (
    DEFLATE,
    LZ4,
    NONE,
    OCTETS_MAX,
    OCTETS_MIN,
    SIZE,
    ZSTD,
    CompressionError,
    Compressor,
    Decompressor,
    chosen_method,
    readable_methods,
)


@pytest.fixture(params=readable_methods())
def method(request):
    return request.param


def test_all_methods_are_tested_where_the_packages_of_the_tests_are_installed():
    pytest.importorskip("lz4")
    pytest.importorskip("zstandard")
    assert readable_methods() == (LZ4, ZSTD, DEFLATE)


def test_payloads_come_back(method):
    compressor, decompressor = Compressor(method), Decompressor(method)
    chance = random.Random(1)
    text = b"".join(b"%d," % chance.randrange(100) for _ in range(30_000))
    for size in (OCTETS_MIN, 1000, 70_000, OCTETS_MAX):
        payload = (text * 30)[:size]
        compressed = compressor.compressed(payload)
        assert compressed is not None
        assert len(compressed) < size
        assert decompressor.original(compressed) == payload


def test_what_becomes_no_smaller_is_sent_as_it_is(method):
    compressor = Compressor(method)
    assert compressor.compressed(b"a" * (OCTETS_MIN - 1)) is None
    assert compressor.compressed(b"a" * (OCTETS_MAX + 1)) is None
    assert compressor.compressed(random.Random(1).randbytes(5000)) is None


def test_damaged_data_are_an_error_or_other_data_of_the_stated_size(method):
    compressor, decompressor = Compressor(method), Decompressor(method)
    payload = b"a text that repeats itself, " * 100
    whole = compressor.compressed(payload)
    for seed in range(500):
        chance = random.Random(seed)
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            made = decompressor.original(bytes(damaged[: chance.choice([3, 20, None])]))
        except CompressionError:
            continue
        assert len(made) == SIZE.unpack_from(damaged)[0] <= OCTETS_MAX


def test_a_payload_that_states_too_much_is_refused_before_it_is_decompressed(method):
    with pytest.raises(CompressionError, match="at most"):
        Decompressor(method).original(SIZE.pack(OCTETS_MAX + 1) + b"anything")


def test_a_bomb_stops_at_the_stated_size(method):
    bomb = Compressor(method).compressed(b"\0" * OCTETS_MAX)
    with pytest.raises(CompressionError):
        Decompressor(method).original(SIZE.pack(1000) + bomb[SIZE.size :])


def test_deflate_reads_no_more_than_is_stated():
    bomb = SIZE.pack(1000) + zlib.compress(b"\0" * 10_000_000)
    with pytest.raises(CompressionError, match="more bytes than it states"):
        Decompressor(DEFLATE).original(bomb)


def test_a_node_sends_by_its_method_if_the_peer_can_read_it_and_else_by_deflate():
    assert chosen_method(ZSTD, (LZ4, ZSTD, DEFLATE)) == ZSTD
    assert chosen_method(ZSTD, (DEFLATE,)) == DEFLATE
    assert chosen_method("a method of a later release", (LZ4, DEFLATE)) == DEFLATE
    assert chosen_method(NONE, (LZ4, ZSTD, DEFLATE)) == NONE
    assert chosen_method(ZSTD, ()) == NONE


def test_a_method_without_its_package_is_not_offered(monkeypatch):
    monkeypatch.setitem(compression.PACKAGES, ZSTD, "a_package_that_is_not_there")
    assert ZSTD not in readable_methods()
