"""The Bloom filter of a chunk: never wrong about what is there, seldom about what is not."""

import pytest

from leveret.cluster.streams.machine.filters import BYTES_MAX, BYTES_MIN, make_filter, may_have

VALUES = [b"value %d" % number for number in range(1_000)]


@pytest.mark.parametrize("size", [BYTES_MIN, 100, BYTES_MAX])
def test_what_a_chunk_has_is_found(size):
    bits = make_filter(VALUES[:20], size)
    assert len(bits) == size
    assert all(may_have(bits, [value], match_unfiltered=False) for value in VALUES[:20])


def test_most_of_what_a_chunk_lacks_is_not_found():
    bits = make_filter(VALUES[:20], BYTES_MAX)
    found = [value for value in VALUES[20:] if may_have(bits, [value], match_unfiltered=False)]
    assert len(found) < 10


def test_messages_without_a_value():
    with_some = make_filter([b"a", b""], BYTES_MIN)
    without = make_filter([b"a"], BYTES_MIN)
    assert may_have(with_some, [b"other"], match_unfiltered=True)
    assert not may_have(without, [b"other"], match_unfiltered=True)
    assert may_have(with_some, [b""], match_unfiltered=False)


def test_a_chunk_without_values_has_no_filter():
    assert make_filter([], BYTES_MIN) == make_filter([b"", b""], BYTES_MIN) == b""
    assert may_have(b"", [b"a"], match_unfiltered=True)
    assert not may_have(b"", [b"a"], match_unfiltered=False)
