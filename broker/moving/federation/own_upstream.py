"""Whether an exchange or queue is its own upstream, regardless of the URI.

Such an exchange would get each of its messages twice, and a queue its own messages forever.
RabbitMQ does not detect this.

The name of the upstream's cluster is not used: a change of name spreads from node to node, and the
upstream may be a node of this cluster that still has another name.
"""

from leveret.broker.moving.federation.link import LinkEnds
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.transfers.attempts import TransferFailed
from leveret.broker.moving.transfers.one_vhost import are_one_vhost


async def refuse_own_upstream(definition: LinkDefinition, ends: LinkEnds) -> None:
    """Raise TransferFailed if both ends of a link are the same, and what `are_one_vhost` does."""
    place = definition.place
    if place.name == place.upstream_name and await are_one_vhost(ends.here, ends.upstream):
        raise TransferFailed(f"{place.kind} '{place.name}' is its own upstream")
