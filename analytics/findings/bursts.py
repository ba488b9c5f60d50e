"""Finds bursts of one publisher that delay other messages, and redeliveries of many at once. Pure.

A burst is what one publisher sends above its usual while messages begin to wait; that a step begins
or ends within it makes no difference. It is a finding if it delays messages of other publishers, or
later ones of its own. A queue with priorities delivers others first: then the burst has to delay
messages of other priorities.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leveret.analytics.findings.changes import Culprit, culprit
from leveret.analytics.findings.episodes import Episode, times
from leveret.analytics.findings.evidence import Evidence, QueueSteps, SeenPublisher
from leveret.analytics.findings.finding import (
    BURST,
    REPLAY,
    Finding,
    Severity,
    of_table,
)
from leveret.analytics.findings.priorities import longest_waits
from leveret.analytics.formatting import SECOND_US, duration, plural, shown

BURST_MIN_US, OTHERS_MIN = 20 * SECOND_US, 3
ALONE_MIN, ALONE_TIMES, LATE_MIN_US = 200, 10, 20 * SECOND_US
"""A burst of the only publisher: messages, times its usual, and the wait of later ones."""
MOST, STEPS_MAX = 0.9, 60
AGAIN_MIN, AGAIN_SHARE = 200, 0.5
"""Messages that are redelivered within a step, and their part of the deliveries."""


class _Burst(NamedTuple):
    """What one publisher has sent at once. others: messages that waited behind it."""

    episode: Episode
    source: Culprit
    first: int
    last: int
    others: int

    @property
    def is_alone(self) -> bool:
        """Tell whether the messages behind it are the publisher's own."""
        return not self.source.publisher.user


def burst(data: Evidence, steps: QueueSteps, found: Sequence[Episode]) -> Finding | None:
    """Return a finding on a publisher whose bursts delay other messages."""
    bursts = [one for episode in found if (one := _burst_of(data, steps, episode)) is not None]
    if not bursts:
        return None
    worst = max(bursts, key=lambda one: one.source.messages)
    since_us, until_us = times(steps, bursts[0].episode)
    if len(bursts) > 1:
        until_us = times(steps, bursts[-1].episode)[1]
    queue, span, sender = steps.queue, steps.span, worst.source.publisher
    sent = _sent(data, steps, worst)
    waited_us = max(steps.longest_wait_us(*times(steps, one.episode)) for one in bursts)
    others = sum(one.others for one in bursts)
    lasted_us = (worst.last - worst.first + 1) * span.step_us
    again = f"; {len(bursts)} bursts in all" if len(bursts) > 1 else ""
    who = f"User {shown(sender.user)}" + (
        f" on {shown(sender.connection)}" if sender.connection else ""
    )
    silence_us = _silence_us(steps, worst.first)
    is_replay = silence_us > 0 and len(data.arrivals.get(queue, {})) == 1
    after = f", after {duration(silence_us)} without any" if is_replay else ""
    kind = REPLAY if is_replay else BURST
    whose = (
        " that came later"
        if is_replay or not _has_others(data, steps, sender)
        else " of other publishers"
    )
    return Finding(
        kind, Severity.WARNING, queue.vhost, (queue.name, sender.user),
        f"{who} published {sent:,} messages to {data.named(queue)} within {duration(lasted_us)} at"
        f" {data.clock(queue.vhost, span.time_of(worst.first))}{after}, and"
        f" {worst.episode.peak:,} waited{again}",
        f"{plural(others, 'message')}{whose} waited behind them, for up to {duration(waited_us)}.",
        "Give bursts a queue of their own, a lower priority, or a slower publisher.",
        f"table publishers, user {shown(sender.user)}; {of_table('queue_activity', queue)}",
        since_us, until_us, sent,
    )  # fmt: skip


def is_passed(data: Evidence, steps: QueueSteps) -> bool:
    """Tell whether messages of other priorities pass those that wait."""
    waits = longest_waits(data.priorities.get(steps.queue, {}), steps.span.steps)
    low = min(waits, default=0)
    return len(waits) > 1 and all(
        waited <= 1 for priority, waited in waits.items() if priority > low
    )


def _burst_of(data: Evidence, steps: QueueSteps, episode: Episode) -> _Burst | None:
    since_us, until_us = times(steps, episode)
    arrivals = data.arrivals.get(steps.queue, {})
    if not arrivals or (until_us or steps.span.ends_us) - since_us < BURST_MIN_US:
        return None
    source, ends = culprit(data, steps, episode.begins, episode.peak_step), episode.ends
    last = steps.span.steps if ends is None else ends
    if source is not None:
        own = _of(arrivals, source.publisher)
        others = sum(count for step, count in steps.came.items() if episode.begins <= step <= last)
        others -= sum(count for step, count in own.items() if episode.begins <= step <= last)
        return _burst_in(own, episode, source, others) if others >= OTHERS_MIN else None
    if len(arrivals) > 1:
        return None
    [(publisher, own)] = arrivals.items()
    length = episode.peak_step - episode.begins + 1
    sent = sum(own.get(step, 0) for step in range(episode.begins, episode.peak_step + 1))
    usual = sum(own.values()) - sent
    usual_in_time = usual / max(1, steps.span.steps - length) * length
    later = sum(count for step, count in own.items() if episode.peak_step < step <= last)
    if (
        sent < max(ALONE_MIN, ALONE_TIMES * usual_in_time) or later < OTHERS_MIN
        or steps.longest_wait_us(since_us, until_us) < LATE_MIN_US
    ):  # fmt: skip
        return None
    return _burst_in(own, episode, Culprit(publisher, sent, 0, sent / length), later)


def _of(arrivals: dict[SeenPublisher, dict[int, int]], wanted: SeenPublisher) -> dict[int, int]:
    """Return the messages of a user, or of a connection, by step."""
    found: dict[int, int] = {}
    for publisher, arrived in arrivals.items():
        if publisher == wanted or (not wanted.connection and publisher.user == wanted.user):
            for step, count in arrived.items():
                found[step] = found.get(step, 0) + count
    return found


def _burst_in(own: dict[int, int], episode: Episode, source: Culprit, others: int) -> _Burst:
    """Return the shortest run of steps that has most of what a publisher has sent."""
    steps = range(episode.begins, episode.peak_step + 1)
    total = sum(own.get(step, 0) for step in steps)
    runs = [
        (last - first, first, last) for first in steps for last in steps if last >= first
        and sum(own.get(step, 0) for step in range(first, last + 1)) >= MOST * total
    ] if len(steps) <= STEPS_MAX else []  # fmt: skip
    _, first, last = min(runs, default=(0, episode.begins, episode.peak_step))
    return _Burst(episode, source, first, last, others)


def _sent(data: Evidence, steps: QueueSteps, one: _Burst) -> int:
    own = _of(data.arrivals[steps.queue], one.source.publisher)
    return sum(own.get(step, 0) for step in range(one.first, one.last + 1))


def _has_others(data: Evidence, steps: QueueSteps, sender: SeenPublisher) -> bool:
    own = _of(data.arrivals[steps.queue], sender)
    return sum(own.values()) < sum(steps.came.values())


def _silence_us(steps: QueueSteps, first: int) -> int:
    """Return for how long nothing came before a step, if messages came before that."""
    earlier = [step for step, count in steps.came.items() if step < first and count]
    silent = first - 1 - max(earlier, default=first - 1)
    usual = len(earlier) / max(1, max(earlier, default=0) - min(earlier, default=0) + 1)
    return silent * steps.span.step_us if silent >= 2 and usual > 0.5 else 0


def redelivered(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each queue that delivered very many messages again at once."""
    for queue, steps in data.queues.items():
        storms = {
            step: count - steps.sent_back.get(step, 0)
            for step, count in steps.redelivered.items()
            if count - steps.sent_back.get(step, 0)
            >= max(AGAIN_MIN, AGAIN_SHARE * steps.delivered.get(step, 0))
        }  # fmt: skip
        if not storms:
            continue
        span, first, last = steps.span, min(storms), max(storms)
        since_us, until_us = span.time_of(first), span.time_of(last + 1)
        ended = [one for one in data.consumers if one.queue == queue
                 and one.last_us < until_us and one.held_max >= AGAIN_MIN / 2]  # fmt: skip
        gone = max(ended, key=lambda one: (one.held_max, one.last_us), default=None)
        who = (
            f" Consumer {shown(gone.tag or 'basic.get')} on {shown(gone.connection)} had up to"
            f" {gone.held_max:,} of them when it ended." if gone else ""
        )  # fmt: skip
        total = sum(storms.values())
        yield Finding(
            REPLAY, Severity.WARNING, queue.vhost, (queue.name,),
            f"{data.named(queue, True)} delivered {total:,} messages again"
            f" {data.period(queue.vhost, since_us, until_us)} that a consumer had received and not"
            f" acknowledged",
            f"Work on them may be done twice, and new messages wait behind them.{who}",
            "Set a prefetch limit, so that few messages are delivered again, and let consumers"
            " tolerate a message that was handled before.",
            of_table("redeliveries", queue, "; table consumer_activity, column held_max"),
            since_us, until_us, total,
        )  # fmt: skip
