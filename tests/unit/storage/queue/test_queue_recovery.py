"""What a restart makes of a queue's records."""

from leveret.storage.messages.formats import (
    UNCOUNTED,
    StateRecord,
    encode_progress,
    encode_run,
    encode_state,
    read_record,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.queue.queue_recovery import QueueRecovery
from tests.unit.storage.fakes import persistent

KEY = 256


def recovery():
    return QueueRecovery(lambda run, bodies: persistent(*bodies))


def publish(to, position, *bodies, damaged=()):
    data = encode_run(0, 1, [(KEY, position)], b"\1x\1k", b"", list(bodies))
    data += b"".join(b"?" * len(body) if body in damaged else body for body in bodies)
    return to.take_run(data, read_record(data, 0))


def settle(to, start, end, fetched_to=0, size=0):
    data = encode_progress(KEY, fetched_to, size, Intervals([(start, end)]))
    to.take(read_record(data, 0))


def state(to, flushed_to, gone=(), fetched_to=0, size=0):
    data = encode_state(
        StateRecord(KEY, flushed_to, fetched_to, size, 0, 50, False, [], Intervals(gone))
    )
    to.take(read_record(data, 0))


def live(to):
    return [(entry.position, entry.message.body) for entry in to.found[KEY].live_entries()]


def test_what_was_published_and_not_settled_comes_back():
    to = recovery()
    publish(to, 0, b"a", b"b", b"c")
    settle(to, 1, 2)
    assert live(to) == [(0, b"a"), (2, b"c")]
    assert to.messages == 3


def test_what_was_delivered_is_marked_as_redelivered():
    to = recovery()
    publish(to, 0, b"a", b"b")
    settle(to, 0, 0, fetched_to=1)
    assert [entry.redelivered for entry in to.found[KEY].live_entries()] == [True, False]


def test_what_a_state_counts_in_segments_does_not_come_from_the_log():
    to = recovery()
    publish(to, 0, b"a", b"b")
    state(to, 1)
    publish(to, 2, b"c")
    assert live(to) == [(1, b"b"), (2, b"c")]


def test_a_message_that_is_in_the_log_twice_comes_back_once():
    to = recovery()
    publish(to, 0, b"a")
    publish(to, 0, b"a")
    assert live(to) == [(0, b"a")]


def test_a_state_replaces_what_was_said_of_bytes_in_segments():
    to = recovery()
    settle(to, 0, 1, size=UNCOUNTED)
    assert to.found[KEY].wants_count
    state(to, 10, size=500)
    settle(to, 1, 2, size=100)
    assert not to.found[KEY].wants_count
    assert to.found[KEY].state_to_restore(KEY).segment_bytes == 400


def test_a_state_without_the_bytes_in_segments_has_them_counted():
    to = recovery()
    state(to, 5, size=UNCOUNTED)
    settle(to, 0, 1, size=10)
    assert to.found[KEY].wants_count
    state(to, 5, size=30)
    assert not to.found[KEY].wants_count


def test_a_damaged_body_costs_one_message():
    to = recovery()
    run, problem = publish(to, 0, b"good", b"bad", b"fine", damaged=[b"bad"])
    assert live(to) == [(0, b"good"), (2, b"fine")]
    assert len(run.sizes) == 3
    assert "1 of 3 messages are lost" in problem


def test_a_queue_without_a_state_starts_from_nothing():
    to = recovery()
    publish(to, 0, b"a")
    found = to.found[KEY].state_to_restore(KEY)
    assert (found.flushed_to, found.tail_number, found.tail_bytes) == (0, -1, 0)
