"""Messages that wait for a time, in blocks: the same as in one sorted list."""

from random import Random

from leveret.cluster.quorum.machine.delayed_messages import BLOCK_RUNS_MAX, DelayedRuns
from leveret.cluster.quorum.machine.runs import Run


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
