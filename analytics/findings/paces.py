"""How long each consumer of a queue takes for a message, and which of them became slower. Pure.

A consumer is compared with its own past, and then with the other consumers of the queue at the
same time: if these are as quick as before, the messages and what consumers call are not the cause.
If all that became slower are on one host, and none of the others is, the host is.
"""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from leveret.analytics.findings.evidence import ConsumerSteps
from leveret.analytics.findings.stretches import Stretch, stretch, usual
from leveret.analytics.formatting import listed, shown

SLOW_TIMES, SLOW_MIN_US = 5, 50_000
"""How much slower a consumer is than before."""
SLOW_STEPS_MIN, SLOW_SHARE_MIN = 6, 0.02
"""Steps in which it settles messages, and part of them, for which it must be slower."""
QUICK_TIMES, QUICK_MIN = 2.5, 3
"""How much quicker another one is at the same time, and messages that it settles."""
NAMED_MAX = 4


class Slower(NamedTuple):
    """Consumers that are slower than before, and the others that are not. first, last: steps.

    before_us, after_us: their times for a message. quick_us: that of the others at the same time.
    """

    consumers: list[ConsumerSteps]
    others: list[ConsumerSteps]
    first: int
    last: int
    before_us: int
    after_us: int
    quick_us: int


def work_us(one: ConsumerSteps, first: int, last: int) -> float | None:
    """Return the time of a consumer for a message in the steps `first` to `last`."""
    settled = sum(count for step, count in one.settled.items() if first <= step <= last)
    busy_us = sum(count for step, count in one.busy_us.items() if first <= step <= last)
    return busy_us / settled if settled else None


def some_slower(consumers: Sequence[ConsumerSteps]) -> Slower | None:
    """Return the consumers of a queue that became slower while others of it did not."""
    slow = [(one, times) for one in consumers if (times := _slow_time(one)) is not None]
    if not slow:
        return None
    worst = max(slow, key=lambda one: one[1].last - one[1].first)[1]
    slow = [
        (one, times) for one, times in slow
        if times.first <= worst.last and worst.first <= times.last
    ]  # fmt: skip
    first, last = min(times.first for _, times in slow), max(times.last for _, times in slow)
    group = [one for one, _ in slow]
    after_us = _all_work_us(group, first, last)
    others = [
        one for one in consumers if one not in group and _settled(one, first, last) >= QUICK_MIN
        and QUICK_TIMES * (work_us(one, first, last) or 0) <= after_us
    ]  # fmt: skip
    if not others:
        return None
    before_us = int(median(usual([*_work(one).values()]) for one in group))
    quick_us = _all_work_us(others, first, last)
    return Slower(group, others, first, last, before_us, int(after_us), int(quick_us))


def slower_than_in_past(
    consumers: Sequence[ConsumerSteps], first: int, last: int, times: float
) -> list[ConsumerSteps]:
    """Return those that take longer in some steps than before these. times: how many times."""
    found = []
    for one in consumers:
        past = [value for step, value in _work(one).items() if step < first]
        now = work_us(one, first, last)
        if past and now is not None and now >= times * median(past):
            found.append(one)
    return found


def _slow_time(one: ConsumerSteps) -> Stretch | None:
    """Return the steps in which a consumer took much longer than usual."""
    work = _work(one)
    if len(work) < 2 * SLOW_STEPS_MIN:
        return None
    usual_us = usual([*work.values()])
    limit_us = max(SLOW_TIMES * usual_us, usual_us + SLOW_MIN_US)
    least = max(SLOW_STEPS_MIN, int(SLOW_SHARE_MIN * len(work)))
    found = stretch([value >= limit_us for value in work.values()], least)
    steps = list(work)
    return None if found is None else Stretch(steps[found.first], steps[found.last])


def _work(one: ConsumerSteps) -> dict[int, float]:
    """Return the time for a message by step, of the steps in which one was settled."""
    return {
        step: one.busy_us.get(step, 0) / count
        for step, count in sorted(one.settled.items())
        if count
    }


def _settled(one: ConsumerSteps, first: int, last: int) -> int:
    return sum(count for step, count in one.settled.items() if first <= step <= last)


def _all_work_us(consumers: Iterable[ConsumerSteps], first: int, last: int) -> float:
    works = [work for one in consumers if (work := work_us(one, first, last)) is not None]
    return median(works) if works else 0.0


# Names


def host(connection: str) -> str:
    """Return the host of a client, from the name of its connection (`host:port -> host:port`)."""
    return connection.split(" -> ", maxsplit=1)[0].rpartition(":")[0]


def own_host(connections: Iterable[str], others: Iterable[str]) -> str:
    """Return the host of all of some connections, on which none of the others is; or nothing."""
    hosts = {host(one) for one in connections}
    return hosts.pop() if len(hosts) == 1 and hosts.isdisjoint(map(host, others)) else ""


def tags_shown(tags: Iterable[str | None]) -> str:
    """Name consumers by their tags, a few of them."""
    names = list(dict.fromkeys(shown(tag) if tag else "(basic.get)" for tag in tags))
    more = len(names) - NAMED_MAX
    return listed([*names[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])])


def consumers_shown(tags: Sequence[str | None]) -> str:
    """Begin a sentence about consumers."""
    return f"Consumer{'s' if len(set(tags)) > 1 else ''} {tags_shown(tags)}"
