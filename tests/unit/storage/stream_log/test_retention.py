"""Which segments go: the oldest ones, by size and by age."""

from types import SimpleNamespace

from leveret.storage.stream_log.retention import (
    Retention,
    is_last_too_old,
    look_at_ms,
    too_many,
)
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest


def segments(*sizes_and_ends):
    """Segments of ten messages each."""
    return [
        SimpleNamespace(size_bytes=size, end_ms=end, first_offset=10 * number)
        for number, (size, end) in enumerate(sizes_and_ends)
    ]


THREE = segments((100, 1_000), (100, 2_000), (50, 3_000))


def test_without_limits_everything_stays():
    assert too_many(THREE, Retention(), 10**9) == 0
    assert look_at_ms(THREE, 30, Retention()) == 0


def test_the_oldest_go_until_the_others_are_small_enough():
    assert [too_many(THREE, Retention(bytes_max=size), 0) for size in (250, 249, 150, 149, 0)] == [
        0, 1, 1, 2, 2,
    ]  # fmt: skip


def test_a_segment_goes_when_its_youngest_message_is_too_old():
    kept = Retention(age_max_ms=100)
    assert [too_many(THREE, kept, now) for now in (1_100, 1_101, 2_101, 99_999)] == [0, 1, 2, 2]
    assert look_at_ms(THREE, 30, kept) == 1_101


def test_the_last_segment_is_ended_when_all_its_messages_are_too_old():
    kept = Retention(age_max_ms=100)
    assert not is_last_too_old(THREE[-1], 30, kept, 3_100)
    assert is_last_too_old(THREE[-1], 30, kept, 3_101)
    assert look_at_ms(THREE[-1:], 30, kept) == 3_101


def test_an_empty_segment_stays():
    kept = Retention(age_max_ms=100)
    assert not is_last_too_old(THREE[-1], 20, kept, 99_999)
    assert look_at_ms(THREE[-1:], 20, kept) == 0


def test_a_stream_whose_messages_are_all_too_old_is_empty(tmp_path):
    stream = StreamUnderTest(tmp_path)
    stream.publish(b"m0", b"m1")
    kept = Retention(age_max_ms=100)
    now_ms = stream.now_ms + 101
    assert is_last_too_old(stream.log.segments[-1], stream.log.next_offset, kept, now_ms)
    stream.log.begin_segment(now_ms)
    stream.log.remove_segments(too_many(stream.log.segments, kept, now_ms))
    stream.write()
    stream.restart()
    assert stream.messages() == {}
    stream.publish(b"m2")
    assert stream.messages() == {2: b"m2"}
    assert stream.runs() == [(2, 1, 1, 0)]
