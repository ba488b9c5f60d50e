"""All findings of a trace, the most severe first, and of each kind the most severe few. Pure."""

from collections.abc import Sequence

from leveret.analytics.findings import (
    absent_consumers,
    bursts,
    clients,
    consumers,
    crashes,
    load,
    losses,
    priorities,
    replies,
    retries,
    silent_publishers,
    slow_consumers,
    streams,
)
from leveret.analytics.findings.evidence import Evidence
from leveret.analytics.findings.finding import CIRCLE, POISON, Finding, Queue, Severity

FINDINGS_MAX = 60
OF_ONE_KIND_MAX = 5

_ALWAYS = (
    clients.gaps, streams.overtaken, streams.falls_behind, consumers.stalled,
    absent_consumers.no_consumer, slow_consumers.slow, priorities.starved, retries.circles,
    retries.poison, bursts.redelivered, replies.late_replies, losses.losses, losses.dead_letters,
    losses.unroutable, consumers.prefetch_high, consumers.without_acks, silent_publishers.silent,
)  # fmt: skip
_LAST = (
    clients.duplicates, clients.hot_keys, clients.churn, clients.leaks, crashes.crashes,
    clients.unread,
)  # fmt: skip


def every_finding(data: Evidence) -> list[Finding]:
    """Return all findings, kind by kind."""
    found = [finding for find in _ALWAYS for finding in find(data)]
    found += retries.out_of_order(data, _about(found, CIRCLE, POISON))
    found += load.load(data, found)
    return found + [finding for find in _LAST for finding in find(data)]


def _about(found: Sequence[Finding], *kinds: str) -> set[Queue]:
    """Return the queues that findings of some kinds are about."""
    return {Queue(one.vhost, name) for one in found if one.kind in kinds for name in one.about}


def findings(data: Evidence) -> list[Finding]:
    """Return the findings of a report, the most severe first."""
    by_kind: dict[str, list[Finding]] = {}
    for finding in every_finding(data):
        by_kind.setdefault(finding.kind, []).append(finding)
    shown: list[Finding] = []
    for of_kind in by_kind.values():
        of_kind.sort(key=lambda one: (one.severity, -one.weight, one.vhost, one.about))
        shown += of_kind[:OF_ONE_KIND_MAX]
        if len(of_kind) > OF_ONE_KIND_MAX:
            shown.append(_more(of_kind[OF_ONE_KIND_MAX:]))
    # The sort is stable: within a severity, kinds stay in the order of the finders.
    return sorted(shown, key=lambda finding: finding.severity)[:FINDINGS_MAX]


def _more(rest: Sequence[Finding]) -> Finding:
    first = rest[0]
    words = f"{len(rest)} more of this kind; the next: {first.sentence}"
    return first._replace(severity=Severity.NOTE, sentence=words)
