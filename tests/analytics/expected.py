"""The contents that tables must have according to an account (account.py), in plain Python.

Durations are given as two sorted lists, of the least and the greatest possible values: the n-th
smallest duration is between the n-th entries of the two lists.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

SETTLING = ("ack", "reject", "requeue")


class Hold(NamedTuple):
    """A delivery that needs an acknowledgement, and the step that ended it, if any."""

    deliver: object
    ended: object


def arrivals(account):
    """Return the step by which each message entered a queue, by (message-id, queue)."""
    return {
        (step.message_id, queue): step
        for step in account.all("publish") + account.all("dead_letter")
        for queue in step.queues
    }


def holds(account):
    """Return the deliveries of messages that were published during the account."""
    found, open_holds, came = [], {}, arrivals(account)
    for step in account.steps:
        key = step.message_id, step.queue
        if step.event == "deliver" and not step.no_ack and key in came:
            open_holds[key] = step
        elif step.event in SETTLING and key in open_holds:
            found.append(Hold(open_holds.pop(key), step))
    return found + [Hold(step, None) for step in open_holds.values()]


def between(first, last):
    """Return the least and the greatest time between two steps."""
    return max(0, last.from_us - first.to_us), last.to_us - first.from_us


def in_order(spans):
    return tuple(sorted(ends) for ends in zip(*spans, strict=True))


def waits(account):
    """For each queue, the waits of its messages for their first delivery."""
    came, found, seen = arrivals(account), defaultdict(list), set()
    for step in account.all("deliver"):
        key = step.message_id, step.queue
        if key in came and key not in seen:
            seen.add(key)
            found[step.queue].append(between(came[key], step))
    return {queue: in_order(spans) for queue, spans in found.items()}


def ack_times(account):
    """For each queue, the times from delivery to acknowledgement."""
    found = defaultdict(list)
    for deliver, ended in holds(account):
        if ended is not None and ended.event == "ack":
            found[deliver.queue].append(between(deliver, ended))
    return {queue: in_order(spans) for queue, spans in found.items()}


def traffic(account):
    """Counts by (kind, name, column)."""
    found = Counter()
    for step in account.steps:
        for kind, name in _parties(step):
            for column, count in _counts(step, kind):
                found[kind, name, column] += count
    return +found


def _parties(step):
    queue = [("queue", step.queue)]
    who = [("user", step.user), ("connection", step.connection)] if "user" in step.fields else []
    what = [("exchange", step.exchange), ("routing_key", step.key)] if "key" in step.fields else []
    match step.event:
        case "publish":
            return [*who, *what, *(("queue", name) for name in step.queues)]
        case "dead_letter":
            return [("queue", name) for name in step.queues]
        case "deliver":
            return [*who, *what, *queue]
        case "ack":
            return [*who, *queue]
        case "return":
            return [*who, *what]
    return []


def _counts(step, kind):
    match step.event:
        case "publish":
            return [("published", 1), ("bytes_in", step.size)]
        case "dead_letter":
            return [("published", 1)]
        case "deliver":
            redelivered = ("redelivered", int(step.redelivered))
            return [("delivered", 1), ("bytes_out", step.size), redelivered]
        case "ack":
            return [("acknowledged", 1)]
        case "return":
            return [("returned", 1)]
    return []


def topology(account):
    """Messages by (source, target, reason of dead letters)."""
    found = Counter()
    for step in account.steps:
        if step.event == "publish":
            found[step.user, step.exchange, None] += 1
            found.update((step.exchange, queue, None) for queue in step.queues)
        elif step.event == "deliver":
            consumer = f"{step.tag or 'basic.get'} on {step.connection}"
            found[step.queue, consumer, None] += 1
        elif step.event == "dead_letter":
            found[step.queue, step.exchange, step.reason] += 1
            found.update((step.exchange, queue, step.reason) for queue in step.queues)
    return found


def depth(account, before):
    """(ready, unacked, came, left) of each queue at the end. before: messages of earlier."""
    ready, unacked, came, left = Counter(before), Counter(), Counter(), Counter()
    for step in account.steps:
        queue, count = step.queue, step.fields.get("count", 1)
        if step.event in ("publish", "dead_letter"):
            ready.update(step.queues)
            came.update(step.queues)
        elif step.event == "deliver":
            ready[queue] -= 1
            unacked[queue] += not step.no_ack
            left[queue] += step.no_ack
        elif step.event == "requeue" or (step.event == "reject" and step.requeue):
            ready[queue] += 1
            unacked[queue] -= 1
        elif step.event in ("ack", "reject"):
            unacked[queue] -= 1
            left[queue] += 1
        elif step.event in ("expire", "drop"):
            ready[queue] -= count
            left[queue] += count
    queues = came.keys() | left.keys()
    return {queue: (ready[queue], unacked[queue], came[queue], left[queue]) for queue in queues}
