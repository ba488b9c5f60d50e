"""What changed before messages began to wait in a queue, and what changed first. Pure.

The reasoning of the findings about load. A queue is a balance: publishers put messages in at a
rate, and consumers take them out at a rate, which is their number divided by the time that a
message takes them. Messages wait when the first rate exceeds the second one. So one of four figures
of the queue has changed:

    size       bytes of a message             -> work, since larger messages take longer
    consumers  how many have events           -> fewer messages are taken
    rate       messages that come             -> more messages come, of one publisher or of all
    work       time of a message              -> fewer messages are taken

Each figure is compared with the queue's own past, the steps before the messages began to wait: it
has changed if its median differs by `CHANGE_TIMES`, and it did so in the first step from which on
most steps are nearer to the new value than to the old one. The change that came first is the cause,
and those that came within `AT_ONCE_STEPS` of it are in the order above: the figures above have
effects on those below. A size is a cause only if the work follows it. A figure that has always been
as it is explains nothing: a queue in which messages have always waited has too few consumers.
"""

from collections.abc import Callable, Collection, Mapping
from statistics import median
from typing import NamedTuple

from leveret.analytics.findings.evidence import Evidence, QueueSteps, SeenPublisher
from leveret.analytics.formatting import amount

SIZE, CONSUMERS, RATE, WORK = "size", "consumers", "rate", "work"
CHANGE_TIMES = 1.5
PAST_MIN, AT_ONCE_STEPS, MOST = 3, 2, 0.7
LARGE_TIMES = 10
"""How much larger the largest messages of some times are, to explain what happens then."""
CULPRIT_SHARE = 0.6
"""The part of what comes above the usual that one publisher has sent, to be named."""


class FigureChange(NamedTuple):
    """A figure of a queue has changed. step: the first one with the new value."""

    figure: str
    step: int
    before: float
    after: float


class Culprit(NamedTuple):
    """A publisher that sends more than before. before, after: messages per step."""

    publisher: SeenPublisher
    messages: int
    before: float
    after: float


def changes(steps: QueueSteps, begins: int, last: int) -> list[FigureChange]:
    """Return what has changed in the steps `begins` to `last`, the cause first."""
    figures: tuple[tuple[str, Callable[[QueueSteps, int], float | None]], ...] = (
        (SIZE, size_of), (CONSUMERS, _consumers_of), (RATE, _rate_of), (WORK, work_of),
    )  # fmt: skip
    found = [
        change for figure, value_of in figures
        if (change := _change(steps, figure, value_of, (begins, last))) is not None
    ]  # fmt: skip
    if not any(one.figure == WORK and one.after > one.before for one in found):
        found = [one for one in found if one.figure != SIZE]
    if not found:
        return []
    earliest = min(one.step for one in found)
    at_once = [one for one in found if one.step <= earliest + AT_ONCE_STEPS]
    later = sorted((one for one in found if one not in at_once), key=lambda one: one.step)
    return at_once + later


def _change(
    steps: QueueSteps, figure: str, value_of: Callable[[QueueSteps, int], float | None],
    time: tuple[int, int],
) -> FigureChange | None:  # fmt: skip
    begins, last = time
    values = {
        step: value for step in range(last + 1) if (value := value_of(steps, step)) is not None
    }
    # What was before the first message is not the queue's past.
    first = min(steps.came, default=0)
    past = [value for step, value in values.items() if first < step < begins]
    during = [value for step, value in values.items() if begins < step <= last] or [
        value for step, value in values.items() if begins <= step <= last
    ]
    if len(past) < PAST_MIN or not during:
        return None
    before, after = median(past), median(during)
    is_worse = (
        after * CHANGE_TIMES <= before if figure == CONSUMERS else (after >= CHANGE_TIMES * before)
    )
    if not is_worse or (figure == RATE and not before):
        return None
    return FigureChange(
        figure, first_step(values, (before + after) / 2, after > before), before, after
    )


def first_step(values: Mapping[int, float], middle: float, grows: bool) -> int:
    """Return the step from which on most values are on the new side."""
    new, found = 0, max(values)
    for total, step in enumerate(sorted(values, reverse=True), 1):
        is_new = values[step] > middle if grows else values[step] < middle
        new += is_new
        if is_new and new >= MOST * total:
            found = step
    return found


def size_of(steps: QueueSteps, step: int) -> float | None:
    """Return the mean size of a message that was delivered in a step, in bytes."""
    delivered = steps.delivered.get(step, 0)
    return steps.bytes.get(step, 0) / delivered if delivered else None


def large_ones(steps: QueueSteps, during: Collection[int]) -> str:
    """Say that much larger messages came in some steps than in others; empty if they did not."""
    inside = [size for step, size in steps.size_max.items() if step in during and size]
    outside = [size for step, size in steps.size_max.items() if step not in during and size]
    if not inside or not outside:
        return ""
    large, usual = median(inside), median(outside)
    if large < LARGE_TIMES * usual:
        return ""
    return f"; messages of up to {amount(large)} came then, and of up to {amount(usual)} otherwise"


def work_of(steps: QueueSteps, step: int) -> float | None:
    """Return the time that consumers needed for a message in a step, in microseconds."""
    settled = steps.settled.get(step, 0)
    return steps.busy_us.get(step, 0) / settled if settled else None


def _consumers_of(steps: QueueSteps, step: int) -> float | None:
    return steps.consumers.get(step)


def _rate_of(steps: QueueSteps, step: int) -> float | None:
    return steps.came.get(step, 0)


def culprit(data: Evidence, steps: QueueSteps, begins: int, last: int) -> Culprit | None:
    """Return the publisher that has sent most of what came above the usual; None if all have.

    It is a user, or the connection of one if the user has several and one of them has sent it.
    """
    arrivals = data.arrivals.get(steps.queue, {})
    by_user: dict[SeenPublisher, dict[int, int]] = {}
    for publisher, arrived in arrivals.items():
        of_user = by_user.setdefault(SeenPublisher(publisher.user), {})
        for step, messages in arrived.items():
            of_user[step] = of_user.get(step, 0) + messages
    found = _culprit_of(by_user, begins, last)
    own = {one: arrived for one, arrived in arrivals.items() if one.connection and (
        found is None or one.user == found.publisher.user)}  # fmt: skip
    if len(own) > 1 or found is None:
        found = _culprit_of(own, begins, last) or found
    if found is None or (len(by_user) < 2 and len(arrivals) < 2):
        return None
    return found


def _culprit_of(
    arrivals: dict[SeenPublisher, dict[int, int]], begins: int, last: int
) -> Culprit | None:
    excess: dict[SeenPublisher, tuple[float, Culprit]] = {}
    length = last - begins + 1
    for publisher, arrived in arrivals.items():
        sent = sum(count for step, count in arrived.items() if begins <= step <= last)
        earlier = sum(count for step, count in arrived.items() if step < begins)
        usual = earlier / begins if begins else 0.0
        found = Culprit(publisher, sent, usual, sent / length)
        excess[publisher] = (max(0.0, sent - usual * length), found)
    total = sum(one for one, _ in excess.values())
    if not total:
        return None
    most, found = max(excess.values(), key=lambda one: (one[0], one[1].publisher))
    return found if most >= CULPRIT_SHARE * total else None
