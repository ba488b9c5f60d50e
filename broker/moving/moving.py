"""Links move messages between brokers: the shovels and the federation links of a node.

While the cluster is the standby of another one, links whose declarations come from there do not run
(policies/schema_replication.py): they would compete with the upstream's own links for messages.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from leveret.broker.moving.connecting import Connecting
from leveret.broker.moving.federation.exchange_links import ExchangeLinks
from leveret.broker.moving.federation.federation import Federation
from leveret.broker.moving.federation.queue_links import QueueLinks
from leveret.broker.moving.shovels.configured import static_shovels
from leveret.broker.moving.shovels.measuring import measure
from leveret.broker.moving.shovels.shovels import Shovels
from leveret.broker.policies.schema_replication import COMPONENT as SCHEMA_REPLICATION
from leveret.broker.policies.schema_replication import is_held_back
from leveret.broker.protocols.amqp091.connection.connection import Connection
from leveret.broker.services.clustering import Clustering
from leveret.broker.services.services import Services


class Moving:
    """The shovels and federation links of one node.

    accept: makes the protocol by which the node serves a client. cluster_name: returns the name.
    replication_changed: called when the upstream of a standby has changed, or the cluster has
    become a standby or ceased to be one.
    """

    def __init__(
        self, services: Services, accept: Callable[[], Connection], cluster_name: Callable[[], str]
    ) -> None:
        node = services.config.node_name
        connect = Connecting(services.config, accept).connect
        parameters, vhosts = services.parameters, services.vhosts
        self.replication_changed: Callable[[], object] = lambda: None
        self._parameters = parameters
        self.shovels = Shovels(
            node, parameters, connect, partial(measure, vhosts), services.clock, cluster_name,
            services.declarations.submit, services.events, static_shovels(services.config),
            self._may_run,
        )  # fmt: skip
        kinds = (
            ExchangeLinks(node, vhosts, connect, services.clock, services.events),
            QueueLinks(vhosts, connect, services.clock, services.events),
        )
        self.federation = Federation(
            node, parameters, cluster_name, kinds, services.events, self._may_run
        )

    def take_part_in(self, clustering: Clustering) -> None:
        """The node belongs to a cluster: share the list of running links with the other nodes."""
        self.shovels.take_part_in(clustering)
        clustering.running_changed = self.nodes_changed

    def start(self) -> None:
        """Clients are accepted: start the declared links."""
        self.shovels.start()
        self.federation.start()

    async def stop(self) -> None:
        """End all links."""
        await asyncio.gather(self.shovels.stop(), self.federation.stop())

    # Changes

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """A parameter was set or deleted."""
        if component == SCHEMA_REPLICATION:
            self.shovels.permissions_changed()
            self.federation.permissions_changed()
            self.replication_changed()
        self.shovels.parameter_changed(component, vhost, name)
        self.federation.parameter_changed(component, vhost, name)

    def vhost_deleted(self, vhost: str) -> None:
        """A vhost was deleted, with all its objects."""
        self.shovels.vhost_deleted(vhost)
        self.federation.vhost_deleted(vhost)

    def nodes_changed(self, running: tuple[str, ...]) -> None:
        """The set of running nodes in the cluster has changed."""
        self.shovels.nodes_changed(running)
        self.federation.nodes_changed(running)

    def _may_run(self, vhost: str) -> bool:
        return not is_held_back(self._parameters, vhost)
