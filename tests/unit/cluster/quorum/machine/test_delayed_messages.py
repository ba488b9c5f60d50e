"""Messages that wait for a time, in blocks: the same as in one sorted list."""

from random import Random

from leveret.cluster.quorum.machine.delayed_messages import BLOCK_RUNS_MAX, DelayedRuns, chunks
from leveret.cluster.quorum.machine.runs import Run
from tests.call_counts import counted_calls


def added(random, count):
    """Delayed runs of one message each, and their times and positions as a list."""
    delayed, model = DelayedRuns(), []
    for position in range(1, count + 1):
        run = Run(position, 1, position, 0, 10, 0, time_ms=random.randrange(100))
        delayed.add(run)
        model.append((run.time_ms, position))
    return delayed, sorted(model)


def shown(runs):
    return [(run.time_ms, run.position) for run in runs]


def test_they_are_taken_by_time_and_position_a_number_at_a_time():
    delayed, model = added(Random(1), 5 * BLOCK_RUNS_MAX)
    assert shown(delayed.runs) == model
    assert (delayed.next_ms(), delayed.last_ms()) == (model[0][0], model[-1][0])
    assert delayed.take_ready(-1) == []
    due = [one for one in model if one[0] <= 60]
    assert shown(delayed.take_ready(60, 1500)) == due[:1500]
    assert shown(delayed.take_ready(60)) == due[1500:]
    left = model[len(due) :]
    assert shown(delayed.runs) == left
    assert (delayed.count, delayed.run_count, delayed.bytes) == (len(left),) * 2 + (10 * len(left),)
    assert shown(delayed.take_ready(100)) == left
    assert (delayed.count, delayed.bytes, delayed.next_ms(), delayed.last_ms()) == (0, 0, 0, 0)


def test_chosen_ones_are_taken_wherever_they_are():
    delayed, model = added(Random(2), 3 * BLOCK_RUNS_MAX)
    taken = delayed.take([5, 5, 100, 1200])
    chosen = [one for one in model if one[1] == 5 or 100 <= one[1] <= 1200]
    assert shown(taken) == chosen
    assert shown(delayed.runs) == [one for one in model if one not in set(chosen)]
    assert delayed.run_count == delayed.count == len(model) - len(chosen)
    assert len(delayed.take([])) == delayed.count + len(model) - len(chosen)
    assert delayed.runs == []


def test_what_is_asked_of_very_many_messages_looks_at_few_of_them():
    delayed, _ = added(Random(3), 20_000)
    one = delayed.runs[12_345]
    with counted_calls() as count:
        assert delayed.first_after(0, 0, 100) == delayed.runs[:100]
        assert delayed.has(one.time_ms, one.position)
        taken = delayed.take([one.position, one.position], one.time_ms, one.time_ms)
        assert shown(taken) == shown([one])
        assert not delayed.has(one.time_ms, one.position)
        assert len(delayed.shared()) < 100
        assert delayed.live() == [1, 20_031]
        assert count.taken() < 5 * BLOCK_RUNS_MAX


def test_all_messages_are_read_in_their_order_while_some_leave():
    delayed, _ = added(Random(4), 5000)
    every, seen, gone = delayed.runs, [], set()
    time_ms = position = 0
    while runs := delayed.first_after(time_ms, position, 300):
        seen += runs
        time_ms, position = runs[-1].time_ms, runs[-1].last
        gone |= {run.position for run in delayed.take_ready(every[len(seen) // 2].time_ms)}
    assert seen == every
    assert len(gone) > 1000


def test_the_lists_that_a_snapshot_has_do_not_change():
    delayed, _ = added(Random(4), 3000)
    every = delayed.runs
    shared = delayed.shared()
    delayed.take_ready(every[1500].time_ms)
    delayed.take([every[2000].position, every[2000].position])
    delayed.add(every[0])
    assert [run for runs in chunks(shared, 512) for run in runs] == every
    assert [len(runs) for runs in chunks(shared, 512)] == [512] * 5 + [440]


def test_messages_with_other_times_are_left():
    delayed, _ = added(Random(4), 3000)
    every = delayed.runs
    wanted, other = every[100], every[2000]
    positions = sorted([wanted.position, other.position])
    intervals = [at for position in positions for at in (position, position)]
    assert shown(delayed.take(intervals, wanted.time_ms, wanted.time_ms + 1)) == shown([wanted])
    assert delayed.has(other.time_ms, other.position)
