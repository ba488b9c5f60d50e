"""The state that each node sends the others: alarms, maintenance, static shovels, addresses.

An alarm of one node holds back publishers on all nodes of its cluster. A node under maintenance
gets no new queues from others. A static shovel runs on one of the nodes whose configurations have
it. Clients of streams and of MQTT are told addresses of other nodes. Each node sends its state to
each other node when their link comes up, and after every change, so a node that joins later learns
of it, too. A frame has the whole state, so nothing depends on earlier frames. The alarms of a node
end when it goes down.

A frame is a MessagePack map: later releases may add fields. Alarms that this release does not know
are left out.
"""

import logging
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from leveret.broker.resources.alarms import DISK, MEMORY, Alarms
from leveret.broker.services.client_addresses import ClientAddress, ClientAddresses
from leveret.cluster.links.services import NODE_STATES_SERVICE, Peer, ServiceRegistry

KNOWN_ALARMS = (MEMORY, DISK)

logger = logging.getLogger("leveret.cluster")


class NodeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """alarms: the node's own alarms. is_under_maintenance: it serves no clients (`drain`).
    static_shovels: the names of its static shovels. client_address: for clients of streams.
    mqtt_address, amqp10_address: for those of MQTT and AMQP 1.0.
    """

    alarms: tuple[str, ...] = ()
    is_under_maintenance: bool = False
    static_shovels: tuple[str, ...] = ()
    client_address: ClientAddress = ClientAddress()
    mqtt_address: ClientAddress = ClientAddress()
    amqp10_address: ClientAddress = ClientAddress()


NOTHING_SPECIAL = NodeState()


class NodeStates:
    """A `Service`: the states of this node, and of the nodes that are linked with it.

    maintenance_changed: called when a node is put under maintenance, or comes back.
    static_shovels_changed: called when a node announces its static shovels. Both may be replaced.
    """

    def __init__(
        self,
        links: ServiceRegistry,
        alarms: Alarms,
        addresses: ClientAddresses,
        mqtt_addresses: ClientAddresses,
        amqp10_addresses: ClientAddresses,
    ) -> None:
        self.maintenance_changed: Callable[[], object] = lambda: None
        self.static_shovels_changed: Callable[[], object] = lambda: None
        self._alarms = alarms
        self._addresses = addresses
        self._mqtt_addresses = mqtt_addresses
        self._amqp10_addresses = amqp10_addresses
        self._own = NodeState(alarms.own)
        self._peers: dict[Peer, NodeState] = {}
        alarms.listen(self._alarms_changed)
        for one in (addresses, mqtt_addresses, amqp10_addresses):
            one.own_changed = self._address_changed
        links.register(NODE_STATES_SERVICE, self)

    @property
    def under_maintenance(self) -> frozenset[str]:
        """The other nodes that are under maintenance."""
        return frozenset(
            peer.name for peer, state in self._peers.items() if state.is_under_maintenance
        )

    @property
    def is_under_maintenance(self) -> bool:
        """Whether this node is under maintenance."""
        return self._own.is_under_maintenance

    def with_static_shovel(self, name: str) -> frozenset[str]:
        """The other nodes that have a static shovel of this name."""
        return frozenset(
            peer.name for peer, state in self._peers.items() if name in state.static_shovels
        )

    def set_static_shovels(self, names: tuple[str, ...]) -> None:
        """Announce this node's static shovels to the other nodes."""
        self._set_own(replace(self._own, static_shovels=names))

    def set_under_maintenance(self, is_under_maintenance: bool) -> None:
        """Announce to the other nodes that this one is put under maintenance, or comes back."""
        self._set_own(replace(self._own, is_under_maintenance=is_under_maintenance))

    def _alarms_changed(self) -> None:
        """An alarm has begun or ended; those of other nodes are not passed on."""
        self._set_own(replace(self._own, alarms=self._alarms.own))

    def _address_changed(self) -> None:
        """Clients reach this node by another address."""
        self._set_own(
            replace(
                self._own,
                client_address=self._addresses.own,
                mqtt_address=self._mqtt_addresses.own,
                amqp10_address=self._amqp10_addresses.own,
            )
        )

    def _set_own(self, state: NodeState) -> None:
        if state == self._own:
            return
        before, self._own = self._own, state
        for peer in self._peers:
            self._tell(peer)
        self._compare(before, state)

    def _compare(self, before: NodeState, state: NodeState) -> None:
        if before.is_under_maintenance != state.is_under_maintenance:
            self.maintenance_changed()
        if before.static_shovels != state.static_shovels:
            self.static_shovels_changed()

    def _tell(self, peer: Peer) -> None:
        peer.send(NODE_STATES_SERVICE, msgspec.msgpack.encode(self._own))

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self._peers[peer] = NOTHING_SPECIAL
        if self._own != NOTHING_SPECIAL:
            self._tell(peer)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""
        del self._peers[peer]
        for addresses in (self._addresses, self._mqtt_addresses, self._amqp10_addresses):
            addresses.of_others.pop(peer.name, None)
        self._set_alarms(peer.name, ())

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take another node's state. Raises ValueError if it is damaged."""
        state = msgspec.msgpack.decode(payload, type=NodeState)
        before, self._peers[peer] = self._peers[peer], state
        self._addresses.of_others[peer.name] = state.client_address
        # A client is not sent to a node that would send it away.
        is_open = not state.is_under_maintenance
        for addresses, address in (
            (self._mqtt_addresses, state.mqtt_address),
            (self._amqp10_addresses, state.amqp10_address),
        ):
            addresses.of_others[peer.name] = address if is_open else ClientAddress()
        self._compare(before, state)
        self._set_alarms(peer.name, tuple(one for one in KNOWN_ALARMS if one in state.alarms))

    def drained(self, peer: Peer) -> None:
        """Do nothing: the frames are small and do not wait for room."""

    def _set_alarms(self, node: str, sources: tuple[str, ...]) -> None:
        before = self._alarms.of_others.get(node, ())
        for source in sources:
            if source not in before:
                logger.warning(
                    "%s alarm on node %s: publishers are blocked on all nodes", source, node
                )
        for source in before:
            if source not in sources:
                logger.warning("%s alarm of node %s cleared", source, node)
        self._alarms.set_of_node(node, sources)
