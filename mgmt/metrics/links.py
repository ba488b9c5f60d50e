"""The metrics of shovels and federation links: the number of this node in each state.

Names and labels are those of RabbitMQ's plugins rabbitmq_shovel_prometheus and
rabbitmq_federation_prometheus.
"""

from collections import Counter

from leveret.broker.moving.shovels.status import BLOCKED, FLOW, RUNNING
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.families import Family
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.node_facade.facade import NodeFacade


def add_links(page: Exposition, node: NodeFacade) -> None:
    """Add the numbers of shovels and of federation links."""
    dynamic: Counter[str] = Counter()
    static: Counter[str] = Counter()
    for one in node.shovels.statuses:
        (static if one.vhost is None else dynamic)[_status(one.state)] += 1
    _add(page, names.SHOVELS_DYNAMIC, dynamic)
    _add(page, names.SHOVELS_STATIC, static)
    links = Counter(one.state for one in node.federation.statuses)
    _add(page, names.FEDERATION_LINKS, links)


def _status(state: str) -> str:
    """As in RabbitMQ, a shovel whose destination accepts no messages is running, too."""
    return RUNNING if state in (FLOW, BLOCKED) else state


def _add(page: Exposition, family: Family, counts: Counter[str]) -> None:
    page.add(family, None)
    for status, count in sorted(counts.items()):
        page.add(family, count, render_labels((("status", status),)))
