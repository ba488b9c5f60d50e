"""Finds messages of low priority that wait for ever while others are delivered at once. Pure.

A queue delivers messages of a priority in their order. So the time that they wait follows from how
many have come and how many were delivered by each step. A priority starves in steps in which its
messages wait and hardly any is delivered, while consumers get others: that low ones wait longer is
what priorities are for.
"""

from collections.abc import Iterator, Mapping

from leveret.analytics.findings.evidence import Evidence, QueueSteps
from leveret.analytics.findings.finding import STARVED, Finding, Severity, of_table
from leveret.analytics.formatting import SECOND_US, duration, listed, plural, rate

Counts = Mapping[int, tuple[int, int]]
"""Messages of a priority that came and that were delivered, by step."""

STARVED_MIN_US, STARVED_SHARE = 30 * SECOND_US, 0.1
"""How long nothing is delivered, and which part of the trace."""
WAITING_MIN, DELIVERED_SHARE = 5, 0.05


def longest_waits(by_priority: Mapping[int, Counts], steps: int) -> dict[int, int]:
    """Return the longest wait of a message of each priority, in steps."""
    return {priority: _longest_wait(counts, steps) for priority, counts in by_priority.items()}


def _longest_wait(counts: Counts, steps: int) -> int:
    """Compare when the n-th message came with when it was delivered."""
    waiting: list[tuple[int, int]] = []
    came = delivered = longest = 0
    first = 0
    for step in sorted(counts):
        came += counts[step][0]
        delivered += counts[step][1]
        waiting.append((came, step))
        while first < len(waiting) and waiting[first][0] <= delivered:
            longest = max(longest, step - waiting[first][1])
            first += 1
    if first < len(waiting) and came > delivered:
        longest = max(longest, steps - waiting[first][1])
    return longest


def starved(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue in which messages of low priority are not delivered."""
    for queue, by_priority in data.priorities.items():
        steps = data.queues.get(queue)
        if steps is not None and (found := _starved(data, steps, by_priority)):
            yield found


def _starved(
    data: Evidence, steps: QueueSteps, by_priority: Mapping[int, Counts]
) -> Finding | None:
    span, queue = steps.span, steps.queue
    found: dict[int, tuple[int, int, int]] = {}
    for priority in sorted(by_priority)[:-1]:
        run = _starving_run(steps, by_priority[priority])
        if run is None:
            continue
        lasts_us = (run[1] - run[0] + 1) * span.step_us
        if lasts_us >= max(STARVED_MIN_US, STARVED_SHARE * span.length_us):
            found[priority] = run
    if not found:
        return None
    first, last = min(one[0] for one in found.values()), max(one[1] for one in found.values())
    since_us, is_open = span.time_of(first), last >= span.steps - 2
    until_us = None if is_open else span.time_of(last + 1)
    left = sum(one[2] for one in found.values())
    low = listed([str(priority) for priority in found])
    others = [priority for priority in by_priority if priority > max(found)]
    seconds = (last - first + 1) * span.step_us / SECOND_US
    taken = sum(by_priority[one].get(step, (0, 0))[1] for one in others
                for step in range(first, last + 1)) / seconds  # fmt: skip
    lasted_us = (until_us or span.ends_us) - since_us
    return Finding(
        STARVED, Severity.BAD if is_open else Severity.WARNING, queue.vhost, (queue.name,),
        f"Messages of priority {low} in {data.named(queue)} are not delivered"
        f" {data.period(queue.vhost, since_us, until_us)}: {plural(left, 'message')}"
        f" {'wait' if is_open else 'waited'}, for up to {duration(lasted_us)}",
        f"Those of priority {listed([str(one) for one in sorted(others)])} take up all that"
        f" consumers can do, {rate(taken)} a second.",
        "Give the low ones a queue and consumers of their own, or add consumers; find out why so"
        " many messages have a high priority.",
        of_table("priorities", queue), since_us, until_us, left,
    )  # fmt: skip


def _starving_run(steps: QueueSteps, counts: Counts) -> tuple[int, int, int] | None:
    """Return the longest run of steps in which messages wait and hardly any is delivered.

    Its first and last step, and the most messages that waited.
    """
    best: tuple[int, int, int] | None = None
    begun, most, left = -1, 0, 0
    for step in range(steps.span.steps):
        came, delivered = counts.get(step, (0, 0))
        left = max(0, left + came - delivered)
        others = steps.delivered.get(step, 0) - delivered
        is_starving = (
            left >= WAITING_MIN
            and others > 0
            and (delivered <= DELIVERED_SHARE * steps.delivered.get(step, 0))
        )
        if is_starving:
            begun, most = (step, left) if begun < 0 else (begun, max(most, left))
            if best is None or step - begun > best[1] - best[0]:
                best = begun, step, most
        elif steps.delivered.get(step, 0):
            begun = -1
    return best
