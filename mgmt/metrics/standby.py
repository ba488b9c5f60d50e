"""The metrics of a standby, which follows the definitions of its upstream.

A node that is not and never was a standby has none of them. RabbitMQ has no such metrics.
"""

from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.standby.follower import OFF, Follower


def add_standby(page: Exposition, follower: Follower) -> None:
    """Add the state, and the results of this node's syncs."""
    state, counts, outcome = follower.status, follower.counts, follower.outcome
    if state == OFF:
        return
    page.add(names.STANDBY, 1, render_labels((("state", state),)))
    for result in ("complete", "unchanged", "failed", "held"):
        page.add(names.SYNCS, getattr(counts, result), render_labels((("result", result),)))
    row = (
        counts.changes, counts.last_seconds, counts.last_complete_at_s, len(outcome.kept),
        len(outcome.problems),
    )  # fmt: skip
    page.add_row(names.SYNCED, row)
