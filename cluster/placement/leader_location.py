"""The choice of the node for a new queue. Pure: the random choice is an argument.

The first of these that is set counts: the argument, the policy's key, the configuration. Each kind
of queues has a key of its own (`QueueKind.locator`): `queue-master-locator` for classic queues,
`queue-leader-locator` for the others. An unknown locator counts as none, as in RabbitMQ
(`rabbit_queue_master_location_misc`, `rabbit_queue_location`).

    client-local    the node that the client is connected to
    min-masters     a node with the fewest queues; the client's node, if it is among them
    random          any node
    balanced        as min-masters with few queues in all; as random with many

A queue is never placed on a node that does not run or is under maintenance.
"""

from collections.abc import Callable, Mapping
from typing import Any

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.queue_kind import QueueKind

CLIENT_LOCAL, MIN_MASTERS, RANDOM, BALANCED = "client-local", "min-masters", "random", "balanced"
LOCATORS = {
    CLIENT_LOCAL: CLIENT_LOCAL, MIN_MASTERS: MIN_MASTERS, RANDOM: RANDOM, BALANCED: BALANCED,
    "least-leaders": BALANCED,
}  # fmt: skip
"""`least-leaders` is RabbitMQ's earlier word for `balanced`."""
RANDOM_FROM = 1000
"""From this number of queues on, `balanced` does not count them, as in RabbitMQ."""


def locator_of(
    kind: QueueKind, arguments: Table, policy: Mapping[str, Any], configured: str
) -> str:
    """The locator in force for a queue. policy: the definition of the policies in force."""
    argument = arguments.get(f"x-{kind.locator}")
    wanted = (argument[1] if argument is not None else None, policy.get(kind.locator), configured)
    for one in wanted:
        if isinstance(one, str) and one in LOCATORS:
            return LOCATORS[one]
    return CLIENT_LOCAL


def choose_node(
    locator: str,
    this_node: str,
    count_queues: Callable[[], Mapping[str, int]],
    choose: Callable[[int], int],
) -> str:
    """The node for a queue.

    count_queues: returns the nodes that may be chosen, including this one, with the number of
    queues on each. choose: returns a random number below its argument.
    """
    if locator == CLIENT_LOCAL:
        return this_node
    counts = count_queues()
    nodes = sorted(counts)
    if locator == BALANCED:
        locator = RANDOM if sum(counts.values()) >= RANDOM_FROM else MIN_MASTERS
    if locator == RANDOM:
        return nodes[choose(len(nodes))]
    fewest = min(counts.values())
    if counts[this_node] == fewest:
        return this_node
    return next(node for node in nodes if counts[node] == fewest)
