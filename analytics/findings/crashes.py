"""Finds consumers that end again and again while they hold messages. Pure.

A consumer that is stopped in order acknowledges what it holds, or is stopped once, for an update.
One whose connection ends many times within minutes, each time with messages that come again, fails.
Consumers of one user, queue and host that follow each other are one that starts again.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from leveret.analytics.findings.evidence import Evidence, SeenConsumer
from leveret.analytics.findings.finding import CHURN, Finding, Queue, Severity, of_table
from leveret.analytics.findings.paces import consumers_shown, host
from leveret.analytics.formatting import MINUTE_US, duration, plural, shown

TIMES_MIN, LIFE_MAX_US = 4, 15 * MINUTE_US


def crashes(data: Evidence) -> Iterator[Finding]:
    """Yield a finding for each consumer that ends again and again."""
    by_place: dict[tuple[Queue, str, str], list[SeenConsumer]] = {}
    for one in data.consumers:
        if one.tag is not None and _left(one):
            by_place.setdefault((one.queue, one.user, host(one.connection)), []).append(one)
    for (queue, user, at), consumers in by_place.items():
        lives = _following(consumers)
        if len(lives) < TIMES_MIN or median(map(_life_us, lives)) > LIFE_MAX_US:
            continue
        first_us, last_us = lives[0].last_us, lives[-1].last_us
        every_us = (last_us - first_us) // (len(lives) - 1)
        left, most = sum(map(_left, lives)), max(map(_left, lives))
        until_us = None if data.ends_us(queue.vhost) - last_us <= 2 * every_us else last_us
        yield Finding(
            CHURN, Severity.WARNING, queue.vhost, (queue.name, user),
            f"{consumers_shown([one.tag for one in lives])} of {data.named(queue)} on host"
            f" {shown(at)} ended {len(lives)} times while holding up to"
            f" {plural(most, 'message')}, {data.period(queue.vhost, first_us, until_us)}, about"
            f" every {duration(every_us)}",
            f"{plural(left, 'delivery', 'deliveries')} had to be repeated.",
            "Find out what ends it: its log, or the broker's, has the reason.",
            of_table("consumers", queue, "; table connections, column closed_us"),
            first_us, until_us, len(lives),
        )  # fmt: skip


def _left(one: SeenConsumer) -> int:
    """Return how many messages a consumer held when its channel ended."""
    return max(0, one.settled - one.acknowledged - one.rejected - one.sent_back)


def _life_us(one: SeenConsumer) -> int:
    return one.last_us - one.first_us


def _following(consumers: Sequence[SeenConsumer]) -> list[SeenConsumer]:
    """Return those that follow each other, without those that were there at the same time."""
    found: list[SeenConsumer] = []
    for one in sorted(consumers, key=lambda one: one.last_us):
        if not found or one.first_us >= found[-1].last_us:
            found.append(one)
    return found
