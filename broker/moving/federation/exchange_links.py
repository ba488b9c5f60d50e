"""The links of all federated exchanges. In a cluster each link runs on one node."""

from collections.abc import Iterator, Mapping, Sequence

from leveret.broker.events.events import Events
from leveret.broker.moving.federation.exchange_mover import ExchangeMover
from leveret.broker.moving.federation.link import ConnectFrom, RunningLink
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.federation.status import EXCHANGE
from leveret.broker.moving.transfers.placement_by_hash import chosen
from leveret.broker.runtime.clock import Clock
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.virtual_host import VirtualHost


class ExchangeLinks:
    """The links of federated exchanges. node: the name of this node."""

    kind = EXCHANGE

    def __init__(
        self,
        node: str,
        vhosts: Mapping[str, VirtualHost],
        connect: ConnectFrom,
        clock: Clock,
        events: Events,
    ) -> None:
        self._node = node
        self._vhosts = vhosts
        self._connect = connect
        self._clock = clock
        self._events = events

    def federated(self) -> Iterator[tuple[str, str]]:
        """The exchanges with a policy."""
        for vhost in self._vhosts.values():
            for exchange in vhost.exchanges.values():
                if exchange.policy is not None:
                    yield vhost.name, exchange.name

    def find(self, vhost: str, name: str) -> Exchange | None:
        """The exchange; default and internal exchanges, such as those of links, have no links."""
        place = self._vhosts.get(vhost)
        exchange = None if place is None else place.exchanges.get(name)
        if exchange is None or not name or exchange.internal:
            return None
        return exchange

    def is_here(self, definition: LinkDefinition, running: Sequence[str]) -> bool:
        """The running nodes choose one for each link."""
        return chosen(definition.place, running) == self._node

    def make(self, definition: LinkDefinition) -> RunningLink:
        """A new link, which is started later."""
        exchange = definition.federated
        assert isinstance(exchange, Exchange), "found by `find`"
        mover = ExchangeMover(definition, exchange, self._clock)
        return RunningLink(definition, self._connect, self._clock, mover, self._events)
