"""The text of a journey, as `leveret journey` prints it, one line for each event. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from leveret.analytics.formatting import duration, exchange_shown, listed, moment, plural, shown
from leveret.analytics.journey.journeys import (
    Journey,
    MessageState,
    QueueHistory,
    Record,
    count,
    names,
    time_us,
)
from leveret.broker.tracing import record

Line = tuple[int, str]
"""Time in microseconds, and text."""
DUPLICATE: Final = "duplicate"
_REFUSED: Final = "an exchange had passed a message with its identifier"


class SearchRange(NamedTuple):
    """The range of the search, which bounds the knowledge about missing events.

    gaps: records of gaps and purges. last_us: the time of the last record; looked_to_us: the
    window's end.
    """

    gaps: Sequence[Record]
    last_us: int
    looked_to_us: int | None = None


def journey_lines(journey: Journey, search_range: SearchRange) -> list[str]:
    """Return the lines of a whole journey."""
    begins = journey.begins_us
    lines = [_title(journey)]
    for when, words in _hops(journey):
        since = f"+{duration(when - begins)}" if when > begins else ""
        lines.append(f"  {moment(when)}  {since:>12}  {words}")
    lines += [f"  {words}" for words in _end(journey)]
    unknown = list(_unknown_facts(journey, search_range))
    if unknown:
        lines.append("  Not known:")
        lines += [f"    - {words}" for words in unknown]
    return lines


def _title(journey: Journey) -> str:
    properties = journey.properties
    named = [
        f"{name.replace('_', '-')} {shown(properties[name])}"
        for name in ("message_id", "correlation_id", "type", "app_id")
        if properties.get(name)
    ]
    more = f" ({', '.join(named)})" if named else ""
    return f"Message {journey.number}{more}, vhost {shown(journey.vhost)}, {shown(journey.node)}"


def _hops(journey: Journey) -> Iterator[Line]:
    if journey.came_from is not None:
        yield time_us(journey.came_from), _came_from(journey.came_from)
    are_several = len(journey.nodes) > 1
    for event in journey.events:
        told_by = _WORDS.get(str(event.get("event")))
        words = told_by(event) if told_by else f"{shown(event.get('event'))}: not a known event"
        yield time_us(event), words + (f", on {shown(event.get('node'))}" if are_several else "")


# Events


def _who(event: Record) -> str:
    who = f"connection {shown(event.get('connection', ''))}, channel {event.get('channel')}"
    return f"user {shown(event.get('user', ''))}, {who}"


def _keys(event: Record) -> str:
    keys = [shown(key) or "''" for key in names(event, "routing_keys")]
    return f"routing key{'s' if len(keys) > 1 else ''} {listed(keys) or '(none)'}"


def _routed(event: Record) -> str:
    routed = [
        f"{one if len(found) == 1 else one + 's'} {listed(found)}"
        for one, found in (
            ("queue", [shown(queue) for queue in names(event, "queues")]),
            ("stream", [shown(stream) for stream in names(event, "streams")]),
        )
        if found
    ]
    return f"routed to {' and '.join(routed) or 'no queue'}"


def _published(event: Record) -> str:
    target = f"{exchange_shown(event.get('exchange'))} with {_keys(event)}"
    size = event.get("body_size")
    size_shown = plural(size, "byte") if isinstance(size, int) else "size unknown"
    refused = f", since {_REFUSED}" if event.get("reason") == DUPLICATE else ""
    return f"published to {target}, {size_shown}; {_routed(event)}{refused} ({_who(event)})"


def _came_from(event: Record) -> str:
    return (
        f"came as a dead letter of message {event.get('message')} from queue"
        f" {shown(event.get('queue'))} ({_reason(event)}); {_routed(event)}"
    )


def _delivered(event: Record) -> str:
    tag = event.get("consumer_tag")
    to = "basic.get" if tag is None else f"consumer {shown(tag)}"
    words = f"queue {shown(event.get('queue'))}: delivered to {to}"
    if isinstance(waited := event.get("waited_us"), int):
        words += f" after waiting {duration(waited)}"
    if event.get("redelivered"):
        words += ", as redelivered"
    if event.get("no_ack"):
        words += ", no-ack"
    return f"{words} ({_who(event)}, delivery tag {event.get('delivery_tag')})"


def _after(event: Record) -> str:
    waited = event.get("waited_us")
    return f", {duration(waited)} after its delivery" if isinstance(waited, int) else ""


def _acked(event: Record) -> str:
    return f"queue {shown(event.get('queue'))}: acknowledged{_after(event)}"


def _rejected(event: Record) -> str:
    back = "with requeue" if event.get("requeue") else "without requeue"
    return f"queue {shown(event.get('queue'))}: rejected {back}{_after(event)}"


def _requeued(event: Record) -> str:
    why = "because its channel ended or used basic.recover"
    return f"queue {shown(event.get('queue'))}: requeued {why}{_after(event)}"


def _delayed(event: Record) -> str:
    until_us = event.get("until_us")
    until = f" until {moment(until_us)}" if isinstance(until_us, int) else ""
    return f"queue {shown(event.get('queue'))}: waits for its retry{until}"


def _expired(event: Record) -> str:
    waited = event.get("waited_us")
    after = f" after {duration(waited)}" if isinstance(waited, int) else ""
    return f"queue {shown(event.get('queue'))}: expired{after}"


def _reason(event: Record) -> str:
    reason = str(event.get("reason"))
    return _REASONS.get(reason, shown(reason))


def _dropped(event: Record) -> str:
    return f"queue {shown(event.get('queue'))}: dropped because {_reason(event)}"


def _dead_lettered(event: Record) -> str:
    target = f"{exchange_shown(event.get('exchange'))} with {_keys(event)}"
    lost = "" if names(event, "queues") else " and lost"
    return (
        f"queue {shown(event.get('queue'))}: dead-lettered ({_reason(event)}) to {target};"
        f" {_routed(event)}{lost}, as message {event.get('new_message')}"
    )


def _returned(event: Record) -> str:
    why = f"{event.get('reply_code')} {shown(event.get('reply_text', ''))}"
    return f"returned to its publisher: {why}"


_REASONS = {
    "expired": "it had expired",
    "rejected": "it was rejected",
    "maxlen": "the queue was full",
    "purge": "the queue was purged",
    "queue_deleted": "the queue was deleted",
    "delivery_limit": "it was delivered too often",
    "discarded": "an operator discarded it while it waited for its retry",
    "duplicate": "the queue had a message with its identifier",
}


def _placed(event: Record) -> str:
    return f"stream {shown(event.get('queue'))}: stored at offset {event.get('offset')}"


_WORDS = {
    record.PUBLISH: _published,
    record.DELIVER: _delivered,
    record.ACK: _acked,
    record.REJECT: _rejected,
    record.REQUEUE: _requeued,
    record.DELAY: _delayed,
    record.EXPIRE: _expired,
    record.DROP: _dropped,
    record.DEAD_LETTER: _dead_lettered,
    record.RETURN: _returned,
    record.PLACE: _placed,
}

# How it ended, and missing knowledge


def _end(journey: Journey) -> Iterator[str]:
    if journey.histories and journey.is_over:
        ended = [
            f"{history.state.value} in queue {shown(history.queue)}"
            for history in journey.histories.values()
        ]
        yield f"The end: {listed(ended)}."
    elif streams := _streams(journey):
        yield f"The end: kept in {listed(streams)}."
    elif not journey.histories and journey.is_over and journey.number:
        is_back = any(event.get("event") == record.RETURN for event in journey.events)
        is_refused = (journey.publish or {}).get("reason") == DUPLICATE
        end = "lost"
        if is_back:
            end = "returned to its publisher"
        elif is_refused:
            end = f"not routed, since {_REFUSED}"
        yield f"The end: {end}."


def _streams(journey: Journey) -> list[str]:
    """The streams that keep the message."""
    begun = journey.publish or journey.came_from or {}
    return [f"stream {shown(stream)}" for stream in names(begun, "streams")]


def _unknown_facts(journey: Journey, search_range: SearchRange) -> Iterator[str]:
    if not journey.number:
        yield (
            "it was published before the trace began and has no number, so its other events"
            " cannot be identified"
        )
        return
    if journey.publish is None and journey.came_from is None:
        yield "its publish is not in the files that were searched: publisher, time and exchange"
    for history in journey.histories.values():
        if not history.state.is_end:
            purge = _purge(journey, history, search_range)
            yield purge or _open_history(history, search_range)
    ends = None if journey.is_over else search_range.last_us
    yield from _gaps(journey, search_range, ends)


def _open_history(history: QueueHistory, search_range: SearchRange) -> str:
    last_us, until = search_range.last_us, "the end of the log"
    if search_range.looked_to_us is not None and search_range.looked_to_us <= last_us:
        last_us, until = search_range.looked_to_us, "the time given by --to"
    until = f"{moment(last_us)}, {until}"
    passed = duration(max(0, last_us - history.changed_us))
    queue = shown(history.queue)
    if history.state is MessageState.READY:
        return f"queue {queue}: no end is known; it is still ready {passed} later ({until})"
    tag = (history.last or {}).get("consumer_tag")
    holder = "a basic.get" if tag is None else f"consumer {shown(tag)}"
    return f"queue {queue}: {holder} still has it, unacknowledged, {passed} later ({until})"


def _purge(journey: Journey, history: QueueHistory, search_range: SearchRange) -> str:
    """Describe the purge that removed the message, with all ready ones; empty without one."""
    if history.state is not MessageState.READY:
        return ""
    for drop in search_range.gaps:
        if (
            drop.get("event") == record.DROP
            and drop.get("queue") == history.queue
            and drop.get("vhost") == journey.vhost
            and time_us(drop) >= history.changed_us
        ):
            return (
                f"queue {shown(history.queue)}: {plural(count(drop, 'count'), 'message')}"
                f" were dropped at {moment(time_us(drop))}, because {_reason(drop)}; this"
                " message was ready, so it was among them"
            )
    return ""


def _gaps(journey: Journey, search_range: SearchRange, ends_us: int | None) -> Iterator[str]:
    last = max((time_us(event) for event in journey.events), default=journey.begins_us)
    begins, ends = journey.begins_us, last if ends_us is None else max(last, ends_us)
    for gap in search_range.gaps:
        is_here = gap.get("vhost") == journey.vhost
        until = gap.get("until_us")
        until = until if isinstance(until, int) else time_us(gap)
        if gap.get("event") == record.GAP and is_here and time_us(gap) <= ends and until >= begins:
            yield (
                f"{plural(count(gap, 'lost'), 'record')} could not be written, from"
                f" {moment(time_us(gap))} for {duration(until - time_us(gap))} on"
                f" {shown(gap.get('node'))}; some may be about this message"
            )
