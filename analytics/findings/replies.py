"""Finds replies that came after their requesters had gone, and which server was slow. Pure."""

from collections.abc import Iterator, Sequence

from leveret.analytics.findings.evidence import Evidence, LateReplies, SeenConsumer
from leveret.analytics.findings.finding import LATE_REPLIES, Finding, Severity
from leveret.analytics.formatting import SECOND_US, duration, listed, plural, shown

LATE_MIN, LATE_SHARE = 3, 0.005
STEP_US = 10 * SECOND_US
NAMED_MAX = 3


def late_replies(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each virtual host in which replies were late."""
    by_vhost: dict[str, list[LateReplies]] = {}
    for one in data.replies:
        if one.late >= max(LATE_MIN, LATE_SHARE * one.replies):
            by_vhost.setdefault(one.vhost, []).append(one)
    for vhost, servers in by_vhost.items():
        yield _late(data, vhost, servers)


def _late(data: Evidence, vhost: str, servers: Sequence[LateReplies]) -> Finding:
    late, all_of_them = sum(one.late for one in servers), sum(one.replies for one in servers)
    first = min(servers, key=lambda one: (one.first_us or 0, one.connection))
    since_us = first.first_us or data.spans[vhost].begins_us
    last_us = max(one.last_us or 0 for one in servers)
    until_us = None if data.ends_us(vhost) - last_us <= 3 * STEP_US else last_us + STEP_US
    by_us = max((one.late_max_us or 0 for one in servers), default=0)
    served = _served(data, servers)
    names = list(dict.fromkeys(one.queue.name for one in served))
    of_queues = (
        f" to requests of {listed([shown(one) for one in names[:NAMED_MAX]])}" if names else ""
    )
    how_late = f", by up to {duration(by_us)}" if by_us else ""
    in_vhost = f" in {shown(vhost)}" if len(data.spans) > 1 else ""
    return Finding(
        LATE_REPLIES, Severity.WARNING, vhost,
        (*names, *dict.fromkeys(one.user for one in servers)),
        f"{plural(late, 'reply', 'replies')} of {all_of_them:,}{of_queues}{in_vhost} came after the"
        f" requester had gone{how_late}, {data.period(vhost, since_us, until_us)}",
        f"Requesters gave up, and servers worked for nothing.{_slowest(data, first)}",
        "Make the server faster or add servers; a TTL on the request queue that is as long as the"
        " requesters wait keeps servers from requests whose requester has gone.",
        "table replies, column late", since_us, until_us, late,
    )  # fmt: skip


def _served(data: Evidence, servers: Sequence[LateReplies]) -> list[SeenConsumer]:
    names = {(one.vhost, one.connection) for one in servers}
    return [one for one in data.consumers if (one.queue.vhost, one.connection) in names]


def _slowest(data: Evidence, first: LateReplies) -> str:
    """Name the server whose replies were late first."""
    own = _served(data, [first])
    consumer = max(own, key=lambda one: one.delivered, default=None)
    if consumer is None or first.first_us is None:
        return (
            f" The first late ones came from user {shown(first.user)} on {shown(first.connection)}."
        )
    takes = f", which takes {duration(consumer.work_us)} for a request" if consumer.work_us else ""
    return (
        f" The first late ones came at {data.clock(first.vhost, first.first_us)} from consumer"
        f" {shown(consumer.tag or 'basic.get')} on {shown(first.connection)}{takes}."
    )
