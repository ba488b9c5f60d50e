"""Runs of messages that have times to live of their own."""

import pytest

from leveret.cluster.quorum.machine import queue_messages, run_queue
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    CommandError,
    DeadLetterStrategy,
    DelayedRetry,
    EnqueuedRun,
    EnqueueTimed,
    Options,
    decode_command,
    encode_command,
    is_publish,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import Deliver
from leveret.cluster.quorum.machine.own_times import times_of
from leveret.cluster.quorum.machine.packed_runs import PackedRunsError, pack_runs, unpack_runs
from leveret.cluster.quorum.machine.snapshots import restore, snapshot
from tests.unit.cluster.quorum.machine.queue_by_hand import QueueByHand

DEAD = DeadLetterStrategy.AT_MOST_ONCE


def timed(*lives_ms, size=10):
    """The runs and the times of a publish."""
    run = EnqueuedRun(len(lives_ms), size, min(lives_ms), 4)
    return runs_of([run]), {0: times_of(list(lives_ms))}


def queue_and_client(**options):
    queue = QueueByHand(Options(dead_letters=DEAD, **options))
    return queue, queue.client()


def died(queue):
    return [position for _, position in queue.died]


def test_they_expire_at_the_head_in_the_order_of_the_queue():
    queue, one = queue_and_client()
    one.do(EnqueueTimed, *timed(100, 50, 300, 20))
    assert queue.machine.wake_at_ms() == queue.now_ms + 100
    queue.pass_time(60)
    assert queue.died == []
    queue.pass_time(50)
    assert died(queue) == [1, 2]
    assert queue.machine.wake_at_ms() == queue.now_ms + 190
    queue.pass_time(190)
    assert died(queue) == [3, 4]


def test_they_expire_wherever_they_are_in_the_order_of_their_times():
    queue, one = queue_and_client()
    one.do(EnqueueTimed, *timed(100, 50, 300, 20, 50))
    assert queue.machine.expire_at_ms() == queue.now_ms + 20
    queue.pass_time(60, everywhere=True)
    assert died(queue) == [4, 2, 5]
    queue.machine = restore(snapshot(queue.machine))
    queue.pass_time(100, everywhere=True)
    assert died(queue) == [1]
    queue.pass_time(139, everywhere=True)
    assert (queue.died, queue.counts) == ([], (1, 0))
    queue.pass_time(1, everywhere=True)
    assert (died(queue), queue.machine.expire_at_ms()) == ([3], 0)


def test_a_run_is_delivered_whole_up_to_the_first_that_has_expired():
    queue, one = queue_and_client()
    one.do(EnqueueTimed, *timed(*[1_000] * 50, 10, *[1_000] * 49))
    queue.pass_time(20)
    consumer = one.consume()
    (delivered,) = queue.of(Deliver)
    assert [(run.position, run.count) for run in delivered.runs] == [(1, 50), (52, 49)]
    assert died(queue) == [51]
    queue.pass_time(1_000)
    one.give_back(consumer, 1, 52)
    assert (died(queue), queue.counts) == ([1, 52], (0, 97))


def test_a_run_of_which_none_has_expired_stays_one_run():
    queue, one = queue_and_client()
    one.do(EnqueueTimed, *timed(*range(1_000, 2_000)))
    one.consume(credit=400)
    one.consume(credit=5_000)
    counts = [[run.count for run in effect.runs] for effect in queue.of(Deliver)]
    assert (counts, queue.counts) == ([[600]], (0, 1_000))


def test_no_message_lives_longer_than_the_queue_allows():
    queue, one = queue_and_client(message_ttl_ms=80)
    one.do(EnqueueTimed, *timed(100, 50, 300))
    queue.pass_time(79, everywhere=True)
    assert died(queue) == [2]
    queue.pass_time(1, everywhere=True)
    assert died(queue) == [1, 3]


def test_those_without_time_are_delivered_if_a_consumer_waits_and_are_gone_otherwise():
    queue, one = queue_and_client()
    one.consume(credit=1)
    one.do(EnqueueTimed, *timed(0, 0, 100))
    assert (queue.positions, queue.counts, died(queue)) == ([1], (1, 1), [2])


def test_returned_messages_that_wait_for_their_retry_expire_meanwhile_each_at_its_time():
    options = {"delayed_retry_min_ms": 100, "delayed_retry_max_ms": 100, "delayed_expire": True}
    queue, one = queue_and_client(delayed_retry=DelayedRetry.ALL, **options)
    one.do(EnqueueTimed, *timed(40, 60, 300, 150))
    consumer = one.consume()
    one.give_back(consumer, 1, 2, 3, 4)
    assert queue.machine.wake_at_ms() == queue.now_ms + 40
    queue.pass_time(40)
    assert died(queue) == [1]
    queue.pass_time(59)
    assert (died(queue), queue.positions) == ([2], [])
    queue.pass_time(1)
    assert (queue.died, queue.positions) == ([], [3, 4])


def test_a_queue_that_delays_releases_each_at_its_time():
    queue, one = queue_and_client(is_delaying=True)
    one.do(EnqueueTimed, *timed(100, 50, 300))
    queue.pass_time(50)
    assert died(queue) == [2]
    queue.pass_time(250)
    assert died(queue) == [1, 3]


def test_a_long_queue_packs_them_and_has_few_runs(monkeypatch):
    monkeypatch.setattr(run_queue, "BLOCK_TIMES", 100)
    queue, one = queue_and_client()
    lives_ms = [1_000 + at * 37 % 200 for at in range(3_000)]
    for at in range(0, 3_000, 5):
        one.do(EnqueueTimed, *timed(*lives_ms[at : at + 5]))
    level = queue.machine.messages.ready.levels[0].queue
    assert (level.count, level.expiring, level.block_count) == (3_000, 600, 4)
    gone = []
    while queue.counts[0]:
        queue.pass_time(20, everywhere=True)
        gone += died(queue)
        state = snapshot(queue.machine)
        queue.machine = restore(state)
        assert snapshot(queue.machine) == state
    assert sorted(gone) == list(range(1, 3_001))
    assert gone == sorted(gone, key=lambda position: lives_ms[position - 1])


def test_of_very_many_one_entry_drops_some(monkeypatch):
    monkeypatch.setattr(queue_messages, "EXPIRED_TOGETHER_MAX", 60)
    queue, one = queue_and_client()
    one.publish()
    for _ in range(20):
        one.do(EnqueueTimed, *timed(*range(100, 140)))
    queue.pass_time(1_000, everywhere=True)
    assert len(queue.died) == 80
    assert queue.machine.expire_at_ms() <= queue.now_ms
    while queue.counts != (1, 0):
        queue.pass_time(0, everywhere=True)


def test_the_command_is_read_as_it_was_written():
    command = EnqueueTimed(7, 2, 0, *timed(5, 9))
    data = encode_command(command, b"messages")
    assert decode_command(data) == command
    assert is_publish(data)


@pytest.mark.parametrize("times", [{1: times_of([1])}, {0: times_of([1])}, {0: b"1234567"}])
def test_a_publish_has_a_time_for_each_message_of_a_run(times):
    runs = runs_of([EnqueuedRun(2, 10, NO_LIMIT, 0)])
    with pytest.raises(CommandError, match="not one time for each message"):
        decode_command(encode_command(EnqueueTimed(7, 2, 0, runs, times)))


def test_only_a_run_that_expires_has_times():
    runs = runs_of([EnqueuedRun(2, 10, NO_LIMIT, 0)])
    with pytest.raises(CommandError, match="times for messages without one"):
        decode_command(encode_command(EnqueueTimed(7, 2, 0, runs, {0: times_of([1, 2])})))


def test_packed_times_have_one_for_each_message():
    queue, one = queue_and_client()
    one.do(EnqueueTimed, *timed(100, 200, 300))
    packed = pack_runs(queue.machine.messages.ready.levels[0].queue.runs())
    (run,) = unpack_runs(packed)
    assert [run.expiry_of(at) for at in range(3)] == [1_100, 1_200, 1_300]
    damaged = packed[:-16].replace(b"\x03", b"\x02") + packed[-16:]
    for data in (damaged, packed[:-1]):
        with pytest.raises(PackedRunsError):
            unpack_runs(data)
