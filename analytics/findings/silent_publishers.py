"""Finds publishers that send nothing, or much less, though they have always sent steadily. Pure.

A publisher is compared with its own past, and with the others of its virtual host: they go on. Only
a publisher that sends like a clock is expected to go on, too: the traffic of people ends in the
evening, and a batch when it is done. So it has sent from the beginning of the trace, its messages
by step vary by less than chance makes them vary (or hardly at all), it has not been silent for
nearly as long before, and it has not closed its connection.
"""

from collections.abc import Iterator, Mapping
from statistics import mean, pvariance
from typing import NamedTuple

from leveret.analytics.findings.evidence import Evidence, TraceSpan
from leveret.analytics.findings.finding import SILENT, Finding, Queue, Severity
from leveret.analytics.formatting import MINUTE_US, SECOND_US, duration, listed, plural, rate, shown

LOW_SHARE = 1 / 3
"""The part of its usual messages by step that a silent publisher sends at most."""
PAST_MIN, SILENT_MIN, SILENT_SHARE, LONGER_TIMES = 6, 6, 0.05, 3
"""Steps before and during it, the part of the trace, and how much longer than earlier silences."""
DISPERSION_MAX, VARIATION_MAX = 0.5, 0.1
"""Variance by mean, which is 1 by chance; or the standard deviation by the mean."""
USUAL_PART = 8
"""What is usual is more than what it sends in this number of tenths of its steps."""
MISSED_MIN, OTHERS_SHARE = 20, 0.5
"""Messages that did not come; and which part of their usual messages others send meanwhile."""
NAMED_MAX = 3


class _Silence(NamedTuple):
    """Steps in which a publisher sends little. before, during: messages a step."""

    first: int
    last: int
    before: float
    during: float


def silent(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each user that publishes much less than before."""
    for vhost, users in data.sent.items():
        for user in users:
            if found := _silent_user(data, vhost, user):
                yield _finding(data, vhost, user, _queues(data, vhost, user), found)


def _silent_user(data: Evidence, vhost: str, user: str) -> _Silence | None:
    span, users = data.spans[vhost], data.sent[vhost]
    found = _silence(span, users[user])
    if found is None:
        return None
    if not any(_goes_on(sent, found) for name, sent in users.items() if name != user):
        return None
    since_us, until_us = span.time_of(found.first - 1), span.time_of(found.first + 2)
    has_closed = any(since_us <= one <= until_us for one in data.closings.get((vhost, user), ()))
    return None if has_closed or _has_no_queue(data, vhost, user, since_us) else found


def _has_no_queue(data: Evidence, vhost: str, user: str, since_us: int) -> bool:
    """Tell whether a user publishes messages, or replies, that have no queue: other findings do."""
    return any(
        one.vhost == vhost and one.user == user and one.last_us + MINUTE_US >= since_us
        for one in data.unroutable
    ) or any(
        one.vhost == vhost and one.user == user and (one.last_us or 0) + MINUTE_US >= since_us
        for one in data.replies
    )  # fmt: skip


def _queues(data: Evidence, vhost: str, user: str) -> list[Queue]:
    """Return the queues to which a user publishes, those with the most messages first."""
    sums: dict[Queue, int] = {}
    for queue, arrivals in data.arrivals.items():
        for publisher, arrived in arrivals.items():
            if queue.vhost == vhost and publisher.user == user:
                sums[queue] = sums.get(queue, 0) + sum(arrived.values())
    return sorted(sums, key=lambda queue: (-sums[queue], queue))


def _silence(span: TraceSpan, sent: Mapping[int, int]) -> _Silence | None:
    """Return the longest silence of a publisher that sends like a clock."""
    if min(sent, default=span.steps) > 1:
        return None
    # The first and the last step are not whole.
    counts = [sent.get(step, 0) for step in range(1, span.steps - 1)]
    busy = [count for count in counts if count]
    if len(busy) < PAST_MIN:
        return None
    # A publisher that is slow for most of the trace has still been quicker before.
    usual = sorted(busy)[USUAL_PART * len(busy) // 10]
    runs = _runs([count <= LOW_SHARE * usual for count in counts])
    if not runs:
        return None
    runs.sort(key=lambda one: one[0] - one[1])
    first, last = runs[0]
    length = last - first + 1
    earlier = max((end - begin + 1 for begin, end in runs[1:]), default=0)
    past = counts[:first]
    if (
        length < max(SILENT_MIN, SILENT_SHARE * span.steps, LONGER_TIMES * earlier)
        or not _is_steady(past)
    ):  # fmt: skip
        return None
    before, during = mean(past), mean(counts[first : last + 1])
    if (before - during) * length < MISSED_MIN:
        return None
    return _Silence(first + 1, last + 1, before, during)


def _runs(values: list[bool]) -> list[tuple[int, int]]:
    """Return the first and last place of each run of true values."""
    found, begun = list[tuple[int, int]](), -1
    for place, one in enumerate([*values, False]):
        if one and begun < 0:
            begun = place
        elif not one and begun >= 0:
            found.append((begun, place - 1))
            begun = -1
    return found


def _is_steady(counts: list[int]) -> bool:
    if len(counts) < PAST_MIN:
        return False
    # The step in which it begins is not whole.
    counts = counts[:-1]
    middle, varies = mean(counts), pvariance(counts)
    return middle > 0 and (
        varies <= DISPERSION_MAX * middle or varies <= (VARIATION_MAX * middle) ** 2
    )


def _goes_on(arrived: Mapping[int, int], silence: _Silence) -> bool:
    before = sum(count for step, count in arrived.items() if step < silence.first)
    during = sum(count for step, count in arrived.items() if silence.first <= step <= silence.last)
    length = silence.last - silence.first + 1
    return before > 0 and during / length >= OTHERS_SHARE * before / max(1, silence.first)


def _finding(
    data: Evidence, vhost: str, user: str, queues: list[Queue], found: _Silence
) -> Finding:
    span = data.spans[vhost]
    since_us, is_open = span.time_of(found.first), found.last >= span.steps - 2
    until_us = None if is_open else span.time_of(found.last + 1)
    seconds = span.step_us / SECOND_US
    more = len(queues) - NAMED_MAX
    names = [data.named(one) for one in queues[:NAMED_MAX]]
    to = f" to {listed([*names, *([f'{more} more'] if more > 0 else [])])}" if names else ""
    sends = f"{rate(found.during / seconds)} messages a second" if found.during else "nothing"
    missed = int((found.before - found.during) * (found.last - found.first + 1))
    lasted_us = (until_us or span.ends_us) - since_us
    return Finding(
        SILENT, Severity.WARNING, vhost, (user, *(one.name for one in queues)),
        f"User {shown(user)} {'has ' if is_open else ''}published {sends}{to}"
        f" {data.period(vhost, since_us, until_us)}, for {duration(lasted_us)}, after a steady"
        f" {rate(found.before / seconds)} messages a second",
        f"About {plural(missed, 'message')} did not arrive; other publishers went on.",
        "Look at this program: it is still connected. A blocked connection, a lost confirm or a"
        " failed source stops a publisher.",
        f"table publishers, user {shown(user)}", since_us, until_us, missed,
    )  # fmt: skip
