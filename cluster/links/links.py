"""The links of one node: the linked nodes, the nodes to link, and the calls of services.

`dial` names a node that has to be linked until it is forgotten; a broken link is restored. Nodes
that dial this one are linked as well. Every link is checked as net_ticktime requires, and every
node tells the others the ports that it knows.

Invariants.
  LN1  A node has at most one link to another node.
  LN2  A service gets one `peer_down` for each `peer_up`, and no frame of a link before or after.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from leveret.broker.config import Listener
from leveret.broker.net.acceptor import Acceptor, Tls
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.node_address import NodeAddress, host_of
from leveret.cluster.links.addresses import AddressBook, KnownPort
from leveret.cluster.links.admission import Admission
from leveret.cluster.links.compression import chosen_method
from leveret.cluster.links.dialling import PAUSE_SECONDS_MAX, Dialler
from leveret.cluster.links.handshake import Established
from leveret.cluster.links.handshake_connection import HandshakeConnection
from leveret.cluster.links.hello import NodeIdentity
from leveret.cluster.links.link import LINK_SERVICE, Link
from leveret.cluster.links.listening import (
    TLS_HANDSHAKE_SECONDS_MAX,
    TLS_SHUTDOWN_SECONDS_MAX,
    open_listeners,
)
from leveret.cluster.links.refusals import LinkRefusal, RefusalKind
from leveret.cluster.links.services import Peer, Service
from leveret.cluster.links.ticks import interval_s, was_suspended
from leveret.cluster.links.tls import LinkTls

ADDRESSES = b"A"
"""The beginning of a message of links about addresses."""
CLOSE_SECONDS_MAX = 2.0
"""Time limit of a stop for peers to receive the sent data."""

logger = logging.getLogger("leveret.cluster")


@dataclass(frozen=True)
class LinkOptions:
    """Options of a node's links. bind: the interface; None: that of the node's host. port: 0 for
    any.

    tls: None for links without TLS.
    """

    cookie: bytes = field(repr=False)
    bind: str | None = None
    port: int = 0
    tick_time_s: float = 60.0
    unsent_octets_max: int = 128_000 * 1024
    tls: LinkTls | None = None


class Links:
    """The links of one node. `start` needs the running event loop."""

    def __init__(
        self, identity: NodeIdentity, options: LinkOptions, book: AddressBook, clock: Clock
    ) -> None:
        self._identity = identity
        self._options = options
        self._book = book
        self._clock = clock
        self._services: dict[int, Service] = {}
        self._links: dict[str, Link] = {}
        self._up_since_s: dict[Link, float] = {}
        self._told_services: dict[Link, list[Service]] = {}
        self._diallers: dict[str, Dialler] = {}
        # The reason why the last attempt to link a dialled node has failed.
        self._problems: dict[str, str] = {}
        # The features of each node that was linked, until it is forgotten.
        self._features: dict[str, frozenset[str]] = {}
        self._acceptors: list[Acceptor] = []
        self.admission = Admission(
            lambda: self._identity, options.cookie, clock, self, has_tls=options.tls is not None
        )
        self._checks: Timer | None = None
        self._last_check_s = 0.0
        self._is_stopping = False
        self._all_down = asyncio.Event()

    # The state for other parts

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._identity.node

    @property
    def incarnation(self) -> int:
        """The number of this start."""
        return self._identity.incarnation

    @property
    def port(self) -> int:
        """The port at which other nodes reach this one, from `start` on."""
        return self._identity.port

    @property
    def peers(self) -> Mapping[str, Peer]:
        """The nodes that are linked, by name."""
        return self._links

    @property
    def known_addresses(self) -> Mapping[str, int]:
        """The known ports of other nodes, by the nodes' names."""
        return {entry.node: entry.port for entry in self._book}

    def problem_with(self, node: str) -> str:
        """The reason why a dialled node is not linked; empty if it is unknown."""
        return self._problems.get(node, "")

    @property
    def features(self) -> Mapping[str, frozenset[str]]:
        """The features that this node shares with each node that was linked, as of its last link.

        Nodes stay until they are forgotten: one that is down comes back in the same version.
        """
        return self._features

    def register(self, number: int, service: Service) -> None:
        """Add a service, before the links are started. number: from 1 to 127, not in use yet."""
        assert LINK_SERVICE < number < 128
        assert number not in self._services
        self._services[number] = service

    def set_cluster(self, cluster: str) -> None:
        """Set the cluster of this node for later handshakes; empty: it is not in one."""
        self._identity = replace(self._identity, cluster=cluster)

    @property
    def listening_on(self) -> list[Listener]:
        """The listeners on which other nodes can link to this one."""
        return [Listener(one.host, one.port) for one in self._acceptors]

    # Start and stop

    async def start(self) -> None:
        """Accept connections, and dial. Raises SettingError."""
        options, tls = self._options, None
        if options.tls is not None:
            tls = Tls(
                options.tls.acceptor_context, TLS_HANDSHAKE_SECONDS_MAX, TLS_SHUTDOWN_SECONDS_MAX
            )
        host = options.bind or host_of(self.node)
        self._acceptors = await open_listeners(host, options.port, self.admission.accepted, tls)
        self._identity = replace(self._identity, port=self._acceptors[0].port)
        self._last_check_s = self._now_s()
        self._check_later()
        for dialler in self._diallers.values():
            dialler.begin()

    async def stop(self) -> None:
        """Close the listeners and, when the sent data have been received, all links."""
        self._is_stopping = True
        for acceptor in self._acceptors:
            acceptor.close()
        self.admission.close()
        for dialler in self._diallers.values():
            dialler.rest()
        self._all_down.clear()
        for link in tuple(self._links.values()):
            link.close("this node stops")
        if self._links:
            try:
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await self._all_down.wait()
            except TimeoutError:
                logger.warning(
                    "node %s did not receive all data that was sent before this node stopped",
                    ", ".join(self._links),
                )
        for link in tuple(self._links.values()):
            link.drop("this node stops")
        if self._checks is not None:
            self._checks.cancel()
        if self._options.tls is not None:
            self._options.tls.close()

    # Nodes to link

    def dial(self, address: NodeAddress | str) -> None:
        """Link a node, now and whenever its link breaks.

        Without a port it is dialled at its known port, or else at the default port.
        """
        node, port = (address, None) if isinstance(address, str) else address
        assert node != self.node
        if port is not None:
            self._book.tell(node, port)
        dialler = self._diallers.get(node)
        if dialler is None:
            dialler = self._diallers[node] = Dialler(
                node,
                lambda: self._book.port_of(node),
                lambda: self.admission.dialled(node),
                self._dialler_context,
                lambda port, refusal: self._report(node, port, refusal),
            )
        if node not in self._links and self._acceptors:
            dialler.hurry()
            dialler.begin()

    def forget(self, node: str, reason: str) -> None:
        """Stop dialling a node, close its link, and forget its address."""
        dialler = self._diallers.pop(node, None)
        self._problems.pop(node, None)
        self._features.pop(node, None)
        if dialler is not None:
            dialler.rest()
        self.drop(node, reason)
        self._book.forget(node)

    def drop(self, node: str, reason: str) -> None:
        """Close the link to a node, if there is one. A node that has to be linked is redialled."""
        link = self._links.get(node)
        if link is not None:
            link.drop(reason)

    def _dialler_context(self) -> ssl.SSLContext | None:
        tls = self._options.tls
        return tls.dialler_context() if tls is not None else None

    def _report(self, node: str, port: int, refusal: LinkRefusal) -> None:
        """Log why a node is not linked, unless the reason is unchanged."""
        if refusal.kind is RefusalKind.LINKED:
            return
        problem = f"{node} at {host_of(node)}:{port}: {refusal.sentence}"
        if self._problems.get(node) != problem:
            self._problems[node] = problem
            self.admission.report(f"{node} at {host_of(node)}:{port}", node, refusal)

    # Links come and go

    def link_to(self, node: str) -> Link | None:
        """The link to a node."""
        return self._links.get(node)

    def dialler_of(self, node: str) -> Dialler | None:
        """The dialler of a node."""
        return self._diallers.get(node)

    def link_up(self, connection: HandshakeConnection, result: Established) -> None:
        """A connection becomes the link to a node that has none."""
        hello, own = result.hello, self._identity
        assert hello.node not in self._links, "LN1"
        to_send = chosen_method(own.compression, hello.compressions)
        to_read = chosen_method(hello.compression, own.compressions)
        transport = connection.hand_over()
        link = Link(
            hello.node, hello.incarnation, result.version, result.features, transport, self,
            self._services, self._options.unsent_octets_max, (to_send, to_read),
        )  # fmt: skip
        transport.set_protocol(link)
        self._links[link.name] = link
        self._features[link.name] = link.features
        self._up_since_s[link] = self._now_s()
        self._problems.pop(link.name, None)
        dialler = self._diallers.get(link.name)
        if dialler is not None:
            dialler.rest()
        logger.info(
            "linked to node %s (Leveret %s) at %s", link.name, hello.release, connection.address
        )
        if hello.port:
            self._book.learn(KnownPort(hello.node, hello.port, hello.incarnation))
        self._tell_addresses()
        told = self._told_services[link] = []
        for _, service in sorted(self._services.items()):
            if link.is_down:
                return
            told.append(service)
            self._call(service.peer_up, link)
        if result.rest:
            link.data_received(result.rest)

    def link_down(self, link: Link, reason: str) -> None:
        """A link has gone down; nothing more comes from it."""
        assert self._links.get(link.name) is link, "LN1"
        del self._links[link.name]
        lasted_s = self._now_s() - self._up_since_s.pop(link)
        level = logging.INFO if self._is_stopping else logging.WARNING
        logger.log(level, "the link to node %s is down: %s", link.name, reason)
        for service in self._told_services.pop(link, ()):
            self._call(service.peer_down, link, reason)
        self.admission.link_went_down(link.name)
        if not self._links:
            self._all_down.set()
        dialler = self._diallers.get(link.name)
        if dialler is not None and link.name not in self._links and not self._is_stopping:
            dialler.begin(pauses=lasted_s < PAUSE_SECONDS_MAX)

    def link_drained(self, link: Link) -> None:
        """A link is no longer congested."""
        for service in tuple(self._told_services.get(link, ())):
            self._call(service.drained, link)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a service, so that its errors do not affect others."""
        try:
            function(*arguments)
        except Exception:
            logger.exception("a service failed in a call of the links")

    # Messages between links

    def _tell_addresses(self) -> None:
        message = msgspec.msgpack.encode(list(self._book))
        for link in self._links.values():
            link.send(LINK_SERVICE, ADDRESSES, message)

    def told(self, link: Link, message: bytes) -> None:
        """A message from the links of the other node has arrived."""
        if message[:1] == ADDRESSES:
            try:
                entries = msgspec.msgpack.decode(message[1:], type=list[KnownPort])
            except msgspec.MsgspecError:
                link.drop("it sends addresses that cannot be read")
                return
            if self._book.hear(entries, self.node):
                self._tell_addresses()

    # Checks

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000

    def _check_later(self) -> None:
        delay_s = interval_s(self._options.tick_time_s)
        self._checks = self._clock.call_later_ms(delay_s * 1000, self._check)

    def _check(self) -> None:
        now_s, tick_time_s = self._now_s(), self._options.tick_time_s
        silence_s, self._last_check_s = now_s - self._last_check_s, now_s
        self._check_later()
        if was_suspended(tick_time_s, now_s - silence_s, now_s):
            reason = (
                f"this node did not run for {silence_s:.0f} s, longer than net_ticktime: others "
                "have given it up"
            )
            for link in tuple(self._links.values()):
                link.drop(reason)
            return
        for link in tuple(self._links.values()):
            link.check()
