"""Finds why messages wait in queues that have consumers. Pure.

An episode is a time in which many messages wait. It is explained by what was found before (a stall,
a queue without a consumer, slow consumers, retries); otherwise by a prefetch limit of 1, by an
uneven distribution, by a burst (bursts.py), or by what has changed in the queue (changes.py).
"""

from collections.abc import Iterator, Sequence
from statistics import median

from leveret.analytics.findings.bursts import burst, is_passed
from leveret.analytics.findings.changes import (
    CHANGE_TIMES,
    CONSUMERS,
    RATE,
    SIZE,
    WORK,
    FigureChange,
    changes,
    culprit,
    large_ones,
)
from leveret.analytics.findings.episodes import Episode, episodes, times, waiting
from leveret.analytics.findings.evidence import Evidence, QueueSteps, SeenConsumer, between
from leveret.analytics.findings.finding import (
    BACKLOG,
    HOT_QUEUE,
    PREFETCH_LOW,
    Finding,
    Queue,
    Severity,
    of_table,
)
from leveret.analytics.findings.paces import slower_than_in_past, tags_shown
from leveret.analytics.findings.slow_kinds import slow_kind, slow_since
from leveret.analytics.formatting import (
    MINUTE_US,
    SECOND_US,
    amount,
    duration,
    listed,
    plural,
    rate,
    shown,
)

SUSTAINED_MIN_US, SUSTAINED_SHARE, RISE_SHARE = 5 * MINUTE_US, 0.2, 0.25
"""How long an episode must be, or which part of the trace; and which part of it must be rising."""
HOT_SHARE, HOT_TIMES, SIBLINGS_MIN = 0.25, 3, 3
WORK_MAX_US = SECOND_US
"""Longer work is not limited by a prefetch of 1."""


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
    sustained = [one for one in found if _is_sustained(steps, one)]
    if not sustained and is_passed(data, steps):
        return None
    if limited := _one_at_a_time(data, steps, worst):
        return limited
    if sustained:
        return _overload(data, steps, max(sustained, key=lambda one: one.peak))
    return burst(data, steps, found)


def _is_explained(steps: QueueSteps, episode: Episode, findings: Sequence[Finding]) -> bool:
    since_us, until_us = times(steps, episode)
    ends_us = steps.span.ends_us
    return any(
        one.since_us is not None and one.since_us <= (until_us or ends_us)
        and since_us <= (one.until_us or ends_us) + steps.span.step_us
        for one in findings
    )  # fmt: skip


def _is_sustained(steps: QueueSteps, episode: Episode) -> bool:
    since_us, until_us = times(steps, episode)
    lasts_us = (until_us or steps.span.ends_us) - since_us
    # A rise within two steps may have begun at the end of the first one.
    rises_us = (episode.peak_step - episode.begins) * steps.span.step_us
    is_long = lasts_us >= min(SUSTAINED_MIN_US, SUSTAINED_SHARE * steps.span.length_us)
    return is_long and rises_us >= RISE_SHARE * lasts_us


def _overload(data: Evidence, steps: QueueSteps, episode: Episode) -> Finding:
    """Return the finding that for a long time fewer messages were consumed than came."""
    found_changes = changes(steps, episode.begins, episode.peak_step)
    more_came = not found_changes or found_changes[0].figure == RATE
    if more_came and (found := _hot(data, steps, episode)):
        return found
    queue, (since_us, until_us) = steps.queue, times(steps, episode)
    if found_changes and found_changes[0].figure == WORK:
        # Messages wait some time after they have begun to take longer.
        found_changes[0] = _since_slow(data, steps, found_changes[0], episode.peak_step)
        since_us = min(since_us, steps.span.time_of(found_changes[0].step))
    cause, advice, who = _cause(data, steps, episode, found_changes)
    return Finding(
        BACKLOG, Severity.BAD, queue.vhost, (queue.name, *who),
        f"{cause}, and {waiting(steps, episode)}, {data.period(queue.vhost, since_us, until_us)}",
        _late(steps, since_us, until_us), advice,
        of_table("queue_activity", queue, "; table consumer_activity"),
        since_us, until_us, episode.peak,
    )  # fmt: skip


def _since_slow(data: Evidence, steps: QueueSteps, work: FigureChange, last: int) -> FigureChange:
    """Return a change of the work with the step since which messages of a kind are slow."""
    kinds, during = data.held_kinds.get(steps.queue, ()), range(work.step, last + 1)
    since = slow_since(kinds, during, steps.span.step_us)
    return work if since is None else work._replace(step=min(since, work.step))


def _cause(
    data: Evidence, steps: QueueSteps, episode: Episode, found: Sequence[FigureChange]
) -> tuple[str, str, tuple[str, ...]]:
    """Return the cause in words, what to do about it, and the publisher that it names."""
    first = found[0] if found else None
    name, vhost = data.named(steps.queue), steps.queue.vhost
    came, taken = _rates(steps, episode.begins, episode.peak_step)
    more = "Add consumers or make them faster; a max-length or a TTL limits the queue."
    if first is None:
        return (
            f"{name[0].upper() + name[1:]} receives {rate(came)} messages a second, of which its"
            f" consumers take {rate(taken)}", more, (),
        )  # fmt: skip
    at = data.clock(vhost, steps.span.time_of(first.step))
    if first.figure == SIZE:
        return (
            f"Messages in {name} have grown from {amount(first.before)} to {amount(first.after)}"
            f" since {at}, so that consumers take only {rate(taken)} of the {rate(came)} that"
            " arrive each second",
            "Find out who publishes larger messages; keep large bodies elsewhere and send a"
            " reference.", (),
        )  # fmt: skip
    if first.figure == CONSUMERS:
        gone = _gone(data, steps, first)
        who = (
            f" ({listed([shown(one.tag or 'basic.get') for one in gone[:3]])} ended)"
            if gone
            else ""
        )
        return (
            f"{name[0].upper() + name[1:]} has had {first.after:.0f} of its {first.before:.0f}"
            f" consumers since {at}{who}; these take {rate(taken)} of the {rate(came)} messages"
            " that arrive each second",
            "Start the missing consumers again, and find out why they ended.", (),
        )  # fmt: skip
    if first.figure == WORK:
        slower = slower_than_in_past(
            data.consumer_steps.get(steps.queue, ()), first.step, episode.peak_step, CHANGE_TIMES
        )
        during = range(first.step, episode.peak_step + 1)
        of_kind = slow_kind(data.held_kinds.get(steps.queue, ()), during, steps.span.step_us)
        who = f" ({tags_shown(one.tag for one in slower)})" if slower else ""
        return (
            f"Consumers of {name}{who} take {duration(int(first.after))} for a message since {at},"
            f" {duration(int(first.before))} before, and so {rate(taken)} a second of {rate(came)}"
            f"{of_kind or large_ones(steps, during)}",
            "Look at what changed in the consumers then: an update, or a service that they call.",
            (),
        )  # fmt: skip
    seconds = steps.span.step_us / SECOND_US
    source = culprit(data, steps, episode.begins, episode.peak_step)
    if source is None:
        return (
            f"Publishers send {rate(first.after / seconds)} messages a second to {name} since {at},"
            f" {rate(first.before / seconds)} before, and its consumers take {rate(taken)}",
            more, (),
        )  # fmt: skip
    sender = source.publisher
    on = f" on {shown(sender.connection)}" if sender.connection else ""
    before = f", {rate(source.before / seconds)} before" if source.before else ""
    return (
        f"User {shown(sender.user)}{on} sends {rate(source.after / seconds)} messages a second to"
        f" {name} since {at}{before}; its consumers take {rate(taken)} of {rate(came)}",
        f"Slow this publisher down, or give it a queue of its own. {more}", (sender.user,),
    )  # fmt: skip


def _gone(data: Evidence, steps: QueueSteps, change: FigureChange) -> list[SeenConsumer]:
    """Return the consumers that ended when a queue lost some."""
    near_us = 3 * steps.span.step_us
    at_us = steps.span.time_of(change.step)
    return [
        one for one in data.consumers
        if one.queue == steps.queue and abs(one.last_us - at_us) <= near_us
    ]  # fmt: skip


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
    return f"{plural(count, 'message')} arrived, and waited for up to {duration(waited_us)}."


def _one_at_a_time(data: Evidence, steps: QueueSteps, episode: Episode) -> Finding | None:
    queue, (since_us, until_us) = steps.queue, times(steps, episode)
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
        f"Consumers of {data.named(queue)} hold one message at a time, for {duration(takes_us)},"
        f" including the round trip to the client, and {waiting(steps, episode)},"
        f" {data.period(queue.vhost, since_us, until_us)}",
        _late(steps, since_us, until_us),
        "If the work itself takes less, raise the prefetch limit (basic.qos), so that the next"
        " message is at hand when one is done; otherwise add consumers.",
        of_table("consumer_activity", queue, ", columns held_max and hold_p50_us"),
        since_us, until_us, episode.peak,
    )  # fmt: skip


def _hot(data: Evidence, steps: QueueSteps, episode: Episode) -> Finding | None:
    queue, (since_us, until_us) = steps.queue, times(steps, episode)
    for (vhost, exchange), shares in data.shares.items():
        if vhost != queue.vhost or queue.name not in shares or len(shares) < SIBLINGS_MIN:
            continue
        own, total = shares[queue.name], sum(shares.values())
        others = [count for name, count in shares.items() if name != queue.name]
        share = own / total
        if share < HOT_SHARE or own < HOT_TIMES * median(others):
            continue
        return Finding(
            HOT_QUEUE, Severity.WARNING, vhost, (queue.name,),
            f"{data.named(queue, True)} gets {share:.0%} of the messages that exchange"
            f" {shown(exchange)} routes to {len(shares)} queues, and {waiting(steps, episode)},"
            f" {data.period(vhost, since_us, until_us)}",
            _late(steps, since_us, until_us),
            "Spread the messages by another key, or give this queue more consumers.",
            f"table routing_keys, exchange {shown(exchange)}; {of_table('queue_activity', queue)}",
            since_us, until_us, episode.peak,
        )  # fmt: skip
    return None
