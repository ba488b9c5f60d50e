"""A reference implementation of depth and latency of queues, event by event in plain Python."""

import math
from collections import defaultdict

from tests.analytics.logs import MINUTE_US, SECOND_US

READY, UNACKED = 0, 1


def changes_of(one):
    """Return the changes of queues by a record: (queue, ready, unacked)."""
    name, queue, count = one["event"], one.get("queue"), one.get("count", 1)
    if name in ("publish", "dead_letter"):
        return [(target, 1, 0) for target in one["queues"]]
    if name == "deliver":
        return [(queue, -1, 0 if one["no_ack"] else 1)]
    if name == "requeue" or (name == "reject" and one["requeue"]):
        return [(queue, 1, -1)]
    if name in ("ack", "reject"):
        return [(queue, 0, -1)]
    if name in ("expire", "drop"):
        return [(queue, -count, 0)]
    return []


def depth(records):
    """Return {(queue, minute): (ready, unacked, max ready, max unacked)}."""
    by_second = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for one in records:
        for queue, ready, unacked in changes_of(one):
            change = by_second[queue][one["time_us"] // SECOND_US]
            change[READY] += ready
            change[UNACKED] += unacked
    found = {}
    for queue, seconds in by_second.items():
        ready, unacked = _running(seconds, READY), _running(seconds, UNACKED)
        for second in sorted(seconds):
            key = queue, second // 60
            most = found.get(key, (0, 0, 0, 0))[2:] if key in found else (-1, -1)
            now = ready[second], unacked[second]
            found[key] = *now, max(most[0], now[0]), max(most[1], now[1])
    return found


def _running(seconds, index):
    """Return the sum up to each second, raised so that none is negative."""
    total, sums = 0, {}
    for second in sorted(seconds):
        total += seconds[second][index]
        sums[second] = total
    base = min(0, *sums.values())
    return {second: value - base for second, value in sums.items()}


def latency(records):
    """Return {(queue, minute, measure): sorted durations}."""
    came, first, last, found = {}, {}, {}, defaultdict(list)
    for one in sorted(records, key=lambda one: one["time_us"]):
        life = one.get("queue"), one.get("message")
        if not life[1]:
            continue
        if one["event"] == "publish":
            for queue in one["queues"]:
                came[queue, one["message"]] = one["time_us"]
        elif one["event"] == "deliver":
            if life not in first:
                first[life] = one["time_us"]
                if life in came:
                    found[_key(one, "wait")].append(one["time_us"] - came[life])
            last[life] = one["time_us"]
        elif one["event"] == "ack":
            found[_key(one, "ack")].append(one["time_us"] - last[life])
    return {key: sorted(times) for key, times in found.items()}


def _key(one, measure):
    return one["queue"], one["time_us"] // MINUTE_US, measure


def percentile(times, part):
    """Return the smallest duration that this share of all durations does not exceed."""
    return times[max(0, math.ceil(part * len(times)) - 1)]
