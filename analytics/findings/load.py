"""Finds queues without consumers, and why messages wait in other queues. Pure.

An episode is a time in which many messages wait. It is explained by what was found before (a stall,
a queue without a consumer, slow consumers, retries); otherwise by a burst, by a prefetch limit of
1, by an uneven distribution, or by more messages than the consumers can handle.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leveret.analytics.findings.evidence import Evidence, QueueSteps, Unattended, between
from leveret.analytics.findings.finding import (
    BACKLOG,
    BURST,
    HOT_QUEUE,
    NO_CONSUMER,
    PREFETCH_LOW,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.formatting import MINUTE_US, SECOND_US, duration, listed, plural, shown

ALONE_MIN_US, HABIT_TIMES = MINUTE_US, 3
READY_MIN, PEAK_MIN, PEAK_SHARE = 10, 40, 0.1
"""An episode is a time when this number of messages waits, and a part of the longest backlog."""
SUSTAINED_MIN_US, SUSTAINED_SHARE, RISE_SHARE = 5 * MINUTE_US, 0.2, 0.25
"""How long an episode must be, or which part of the trace; and which part of it must be rising."""
BURST_MIN_US, BURST_SHARE, OTHERS_MIN = 20 * SECOND_US, 0.7, 3
HOT_SHARE, HOT_TIMES, SIBLINGS_MIN = 0.5, 3, 3
WORK_MAX_US = SECOND_US
"""Longer work is not limited by a prefetch of 1."""


class Episode(NamedTuple):
    """A time in which messages wait in a queue, in steps. ends: None if it lasts to the end."""

    begins: int
    ends: int | None
    peak_step: int
    peak: int


# No consumer


def no_consumer(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue in which messages waited without a consumer."""
    by_queue: dict[Queue, list[Unattended]] = {}
    for one in data.unattended:
        by_queue.setdefault(one.queue, []).append(one)
    for queue, stretches in by_queue.items():
        if _is_by_design(data, queue):
            continue
        long = [one for one in stretches if _lasts_us(data, one) >= ALONE_MIN_US]
        if long and not _is_habit(data, stretches):
            yield _no_consumer(data, queue, long)


def _lasts_us(data: Evidence, one: Unattended) -> int:
    return (one.until_us or data.ends_us(one.queue.vhost)) - one.since_us


def _is_by_design(data: Evidence, queue: Queue) -> bool:
    """Tell whether a queue keeps messages for a time or a number only, or is read by basic.get."""
    seen, steps = data.attendance.get(queue), data.queues.get(queue)
    if seen is not None and seen.consumed:
        return False
    if seen is not None and seen.got:
        return True
    return steps is not None and bool(sum(steps.expired.values()) or sum(steps.dropped.values()))


def _is_habit(data: Evidence, stretches: Sequence[Unattended]) -> bool:
    """Tell whether consumers of the queue come and go all the time."""
    lengths = sorted(_lasts_us(data, one) for one in stretches)
    return len(lengths) > 4 and lengths[-1] < HABIT_TIMES * lengths[len(lengths) // 2]


def _no_consumer(data: Evidence, queue: Queue, stretches: Sequence[Unattended]) -> Finding:
    vhost = queue.vhost
    worst = max(stretches, key=lambda one: (one.ready_max, _lasts_us(data, one)))
    is_letters = any(queue.name in one.targets for one in data.deaths if one.queue.vhost == vhost)
    seen = data.attendance.get(queue)
    had_one = seen is not None and seen.consumed > 0
    period = data.period(vhost, worst.since_us, worst.until_us)
    still = worst.until_us is None
    words = f"{period}, for {duration(_lasts_us(data, worst))}, it had no consumer, and"
    if still:
        words += f" {plural(worst.ready_last, 'message')} are waiting at the end"
    else:
        words += f" up to {plural(worst.ready_max, 'message')} waited"
    if len(stretches) > 1:
        words += f"; {len(stretches)} times in all"
    last = [one for one in data.consumers if one.queue == queue and one.last_us <= worst.since_us]
    gone = max(last, key=lambda one: one.last_us, default=None)
    if gone is not None:
        words += f". The last one was {shown(gone.tag or 'basic.get')} on {shown(gone.connection)}"
    users = [shown(user) for user in data.users.get(queue, [])[:3] if user]
    is_bad = not is_letters and (had_one or still)
    return Finding(
        NO_CONSUMER, Severity.BAD if is_bad else Severity.NOTE, vhost, (queue.name,),
        f"{data.named(queue)}: {words}",
        "No consumer reads these dead letters." if is_letters else
        f"What {listed(users) or 'its publishers'} sent was not handled"
        f"{' in this time' if not still else ''}.",
        "Start the consumer again, and find out why it ended." if had_one else
        "Start a consumer, or delete the queue or its bindings.",
        of_table("unattended", queue, "; table fates, fate never_delivered"),
        worst.since_us, worst.until_us, worst.ready_max,
    )  # fmt: skip


# Episodes


def load(data: Evidence, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield explanations of episodes that earlier findings do not explain."""
    explained: dict[Queue, list[Finding]] = {}
    for finding in earlier:
        for name in finding.about:
            explained.setdefault(Queue(finding.vhost, name), []).append(finding)
    for queue, steps in data.queues.items():
        seen = data.attendance.get(queue)
        if seen is None or not seen.consumed:
            continue
        left = [one for one in episodes(steps)
                if not _is_explained(steps, one, explained.get(queue, ()))]  # fmt: skip
        if left and (found := _why(data, steps, left)):
            yield found


def _why(data: Evidence, steps: QueueSteps, found: Sequence[Episode]) -> Finding | None:
    worst = max(found, key=lambda one: one.peak)
    if limited := _one_at_a_time(data, steps, worst):
        return limited
    sustained = [one for one in found if _is_sustained(steps, one)]
    if sustained:
        return _overload(data, steps, max(sustained, key=lambda one: one.peak))
    return _burst(data, steps, found)


def episodes(steps: QueueSteps) -> list[Episode]:
    """Return the times in which many messages wait."""
    highest = max(steps.ready_max.values(), default=0)
    if highest < PEAK_MIN:
        return []
    usual = sorted(steps.ready_max.values())[len(steps.ready_max) // 2]
    least = max(READY_MIN, min(PEAK_SHARE * highest, 2 * usual))
    found, begun, rising = list[Episode](), None, None
    peak, peak_step = 0, 0
    for step in sorted(steps.ready_max):
        most, ready = steps.ready_max[step], steps.ready[step]
        if rising is None and most >= READY_MIN:
            rising = step
        if begun is None and most >= least:
            begun, peak, peak_step = rising, most, step
        elif begun is not None and most > peak:
            peak, peak_step = most, step
        if begun is not None and ready < least:
            found.append(Episode(begun, step, peak_step, peak))
            begun = None
        if ready < READY_MIN:
            rising = None
    if begun is not None:
        found.append(Episode(begun, None, peak_step, peak))
    return [one for one in found if one.peak >= PEAK_MIN]


def _times(steps: QueueSteps, episode: Episode) -> tuple[int, int | None]:
    span = steps.span
    until_us = None if episode.ends is None else span.time_of(episode.ends + 1)
    return span.time_of(episode.begins), until_us


def _is_explained(steps: QueueSteps, episode: Episode, findings: Sequence[Finding]) -> bool:
    since_us, until_us = _times(steps, episode)
    ends_us = steps.span.ends_us
    return any(
        one.since_us is not None and one.since_us <= (until_us or ends_us)
        and since_us <= (one.until_us or ends_us) + steps.span.step_us
        for one in findings
    )  # fmt: skip


def _is_sustained(steps: QueueSteps, episode: Episode) -> bool:
    since_us, until_us = _times(steps, episode)
    lasts_us = (until_us or steps.span.ends_us) - since_us
    rises_us = (episode.peak_step - episode.begins + 1) * steps.span.step_us
    is_long = lasts_us >= min(SUSTAINED_MIN_US, SUSTAINED_SHARE * steps.span.length_us)
    return is_long and rises_us >= RISE_SHARE * lasts_us


def _overload(data: Evidence, steps: QueueSteps, episode: Episode) -> Finding:
    """Return the finding that for a long time more messages came than were consumed."""
    if found := _hot(data, steps, episode):
        return found
    queue, (since_us, until_us) = steps.queue, _times(steps, episode)
    came, taken = _rates(steps, episode.begins, episode.peak_step)
    before, _ = _rates(steps, max(0, 2 * episode.begins - episode.peak_step), episode.begins - 1)
    rose = f", up from {before:,.2f}" if before and came > 1.3 * before else ""
    return Finding(
        BACKLOG, Severity.BAD, queue.vhost, (queue.name,),
        f"{data.named(queue)}: more came than was consumed"
        f" {data.period(queue.vhost, since_us, until_us)}: {came:,.2f} messages per second{rose},"
        f" of which {taken:,.2f} were delivered; {_waiting(steps, episode)}",
        _late(steps, since_us, until_us),
        "Add consumers or make them faster; a max-length or a TTL limits the queue.",
        of_table("queue_activity", queue), since_us, until_us, episode.peak,
    )  # fmt: skip


def _waiting(steps: QueueSteps, episode: Episode) -> str:
    if episode.ends is not None:
        return f"up to {episode.peak:,} waited"
    return f"{steps.ready[max(steps.ready)]:,} are waiting at the end"


def _rates(steps: QueueSteps, first: int, last: int) -> tuple[float, float]:
    """Return messages that came and that were delivered, per second."""
    seconds = max(1, last - first + 1) * steps.span.step_us / SECOND_US
    sums = (
        sum(value for step, value in values.items() if first <= step <= last)
        for values in (steps.came, steps.delivered)
    )
    came, delivered = (one / seconds for one in sums)
    return came, delivered


def _late(steps: QueueSteps, since_us: int, until_us: int | None) -> str:
    waited_us = steps.longest_wait_us(since_us, until_us)
    count = sum(between(steps, steps.came, since_us, until_us))
    return f"{plural(count, 'message')} came; they waited for up to {duration(waited_us)}."


def _one_at_a_time(data: Evidence, steps: QueueSteps, episode: Episode) -> Finding | None:
    queue, (since_us, until_us) = steps.queue, _times(steps, episode)
    first, last = episode.begins, episode.ends or steps.span.steps
    # The step in which it begins may have seen an earlier consumer.
    held = [value for step, value in steps.held_max.items() if first < step <= last]
    settled = sum(value for step, value in steps.settled.items() if first < step <= last)
    busy_us = sum(value for step, value in steps.busy_us.items() if first < step <= last)
    if not held or max(held) != 1 or not settled:
        return None
    takes_us = busy_us // settled
    if takes_us > WORK_MAX_US:
        return None
    return Finding(
        PREFETCH_LOW, Severity.WARNING, queue.vhost, (queue.name,),
        f"{data.named(queue)}: {data.period(queue.vhost, since_us, until_us)}"
        f" {_waiting(steps, episode)} while each consumer held one message at a time, for"
        f" {duration(takes_us)}, which includes the way to the client and back",
        _late(steps, since_us, until_us),
        "If the work itself is shorter, raise the prefetch limit (basic.qos), so that the next"
        " message is there when one is done; otherwise add consumers.",
        of_table("consumer_activity", queue, ", columns held_max and hold_p50_us"),
        since_us, until_us, episode.peak,
    )  # fmt: skip


def _hot(data: Evidence, steps: QueueSteps, episode: Episode) -> Finding | None:
    queue, (since_us, until_us) = steps.queue, _times(steps, episode)
    for (vhost, exchange), shares in data.shares.items():
        if vhost != queue.vhost or queue.name not in shares or len(shares) < SIBLINGS_MIN:
            continue
        share = shares[queue.name] / sum(shares.values())
        if share < max(HOT_SHARE, HOT_TIMES / len(shares)):
            continue
        return Finding(
            HOT_QUEUE, Severity.WARNING, vhost, (queue.name,),
            f"{data.named(queue)}: it gets {share:.0%} of what exchange {shown(exchange)} routes to"
            f" {len(shares)} queues, and its consumers cannot keep up"
            f" {data.period(vhost, since_us, until_us)}; {_waiting(steps, episode)}",
            _late(steps, since_us, until_us),
            "Spread the messages by another key, or give this queue more consumers.",
            f"table routing_keys, exchange {shown(exchange)}; {of_table('queue_activity', queue)}",
            since_us, until_us, episode.peak,
        )  # fmt: skip
    return None


# Bursts


def _burst(data: Evidence, steps: QueueSteps, found: Sequence[Episode]) -> Finding | None:
    """Return a finding on a user whose bursts delay the messages of others."""
    queue = steps.queue
    by_user = data.arrivals.get(queue, {})
    bursts = []
    for episode in found:
        since_us, until_us = _times(steps, episode)
        lasts_us = (until_us or steps.span.ends_us) - since_us
        rising = {
            user: _in_steps(arrived, episode.begins, episode.peak_step)
            for user, arrived in by_user.items()
        }
        if not rising or lasts_us < BURST_MIN_US:
            continue
        user = max(rising, key=lambda one: (rising[one], one))
        others = sum(_in_steps(arrived, episode.begins, episode.ends or steps.span.steps)
                     for name, arrived in by_user.items() if name != user)  # fmt: skip
        if rising[user] >= BURST_SHARE * sum(rising.values()) and others >= OTHERS_MIN:
            bursts.append((episode, user, rising[user], others))
    if not bursts:
        return None
    episode, user, sent, _ = max(bursts, key=lambda one: one[2])
    first = bursts[0][0]
    since_us, until_us = _times(steps, first)
    others = sum(one[3] for one in bursts)
    seconds = (episode.peak_step - episode.begins + 1) * steps.span.step_us
    again = f"; {len(bursts)} times in all" if len(bursts) > 1 else ""
    waited_us = max(steps.longest_wait_us(*_times(steps, one[0])) for one in bursts)
    return Finding(
        BURST, Severity.WARNING, queue.vhost, (queue.name, user),
        f"{data.named(queue)}: user {shown(user)} published {sent:,} messages within"
        f" {duration(seconds)} at {data.clock(queue.vhost, steps.span.time_of(episode.begins))},"
        f" and {episode.peak:,} waited{again}",
        f"{plural(others, 'message')} of other users waited behind them, up to"
        f" {duration(waited_us)}.",
        "Give bursts a queue of their own, a lower priority, or a slower publisher.",
        f"table publishers, user {shown(user)}; {of_table('queue_activity', queue)}",
        since_us, _times(steps, bursts[-1][0])[1] if len(bursts) > 1 else until_us, sent,
    )  # fmt: skip


def _in_steps(values: dict[int, int], first: int, last: int) -> int:
    return sum(value for step, value in values.items() if first <= step <= last)
