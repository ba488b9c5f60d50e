"""Whether an exchange or queue is its own upstream, whatever the URI says.

An exchange would get each of its messages once more, and a queue its own ones for ever. RabbitMQ
does not notice.

What the upstream calls its cluster does not count: a name goes from node to node, and the upstream
may be a node of this cluster that knows another one.
"""

from leveret.broker.federation.link import LinkEnds
from leveret.broker.federation.link_definition import LinkDefinition
from leveret.broker.transfers.attempts import TransferFailed
from leveret.broker.transfers.one_vhost import are_one_vhost


async def refuse_own_upstream(definition: LinkDefinition, ends: LinkEnds) -> None:
    """Raise TransferFailed if both ends of a link are the same, and what `are_one_vhost` does."""
    place = definition.place
    if place.name == place.upstream_name and await are_one_vhost(ends.here, ends.upstream):
        raise TransferFailed(f"{place.kind} '{place.name}' is its own upstream")
