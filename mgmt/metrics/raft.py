"""The metrics of quorum queues and streams: their members on this node, and what operators should
look at.
"""

from collections import Counter
from collections.abc import AsyncIterator

from leveret.broker.queues.contract.queue_kind import QUORUM, STREAM
from leveret.broker.queues.contract.status import RaftFigures
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, Row, render_labels
from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.running_node import RunningNode
from leveret.mgmt.statistics.sampler import Sampler

LOOKED_AT_ONCE = 50
"""Queues examined before the slice may end: a tenth of a millisecond."""
BEHIND = 1000
"""A member that lacks more entries than this is behind: less has a queue with much traffic."""
KINDS = ((QUORUM, names.QUORUM_QUEUES), (STREAM, names.STREAMS))


async def each_member(
    sampler: Sampler, vhosts: set[str] | None = None
) -> AsyncIterator[tuple[Place, str, RaftFigures]]:
    """The members of queues on this node, of all vhosts or of some, in slices.

    Each with the kind of its queue.
    """
    for number, (place, kind, figures) in enumerate(sampler.facade.raft_figures()):
        if figures is not None and (vhosts is None or place[0] in vhosts):
            yield place, kind, figures
        if number % LOOKED_AT_ONCE == 0:
            await sampler.give_way()


async def add_members(page: Exposition, sampler: Sampler, vhosts: set[str] | None) -> None:
    """Add each member of this node to a page."""
    labels: list[str] = []
    rows: list[Row] = []
    async for (vhost, queue), _, figures in each_member(sampler, vhosts):
        labels.append(render_labels((("vhost", vhost), ("queue", queue))))
        rows.append(_row(figures))
    page.add_table(names.RAFT, range(len(names.RAFT)), labels, rows)


async def add_sums(page: Exposition, node: RunningNode) -> None:
    """Add the sums over the members of this node to a page, and what is wrong with queues."""
    sums = [0.0] * len(names.RAFT)
    leaderless, behind = Counter[str](), Counter[str]()
    async for _, kind, figures in each_member(node.sampler):
        sums = [total + value for total, value in zip(sums, _row(figures), strict=True)]
        leaderless[kind] += not figures.is_led
        behind[kind] += sum(lacked > BEHIND for lacked in figures.lacks.values())
    page.add_row(names.RAFT, tuple(sums))
    for kind, families in KINDS:
        page.add_row(families, (leaderless[kind], behind[kind], await _critical(node, kind)))


async def _critical(node: RunningNode, kind: str) -> int:
    """How many queues of a kind would lose their majority without this node."""
    cluster = node.cluster
    if cluster is None or len(cluster.members) == 1:
        return 0
    count, running = 0, set(cluster.running)
    found = node.sampler.facade.queues_that_need(node.name, kind, running)
    for number, queue in enumerate(found):
        count += queue is not None
        if number % LOOKED_AT_ONCE == 0:
            await node.sampler.give_way()
    return count


def _row(figures: RaftFigures) -> tuple[float, ...]:
    """In the order of `RAFT`."""
    return (
        figures.term, figures.snapshot, figures.applied, figures.commit, figures.written,
        figures.commit_seconds,
    )  # fmt: skip
