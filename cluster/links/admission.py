"""Handshakes of a node, from the first byte to a link or a refusal.

Connections that this node accepts and those that it dials come here. The decision about a proven
connection is in one_link.py; asking a link for a sign of life, and the clock, are here. Every
connection that does not become a link causes one log line, which states the remedy; lines of one
address are limited. The surplus connection of two nodes that dial each other causes none.

At most UNFINISHED_MAX accepted connections may be in their handshake. One more replaces the oldest
that has not proved that it knows the cookie: a node needs milliseconds for its handshake, so the
oldest ones do not come from nodes.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.log_limit import LogLimit
from leveret.broker.runtime.node_address import host_of
from leveret.cluster.links.dialling import Dialler
from leveret.cluster.links.handshake import NONCE_OCTETS, Established, Handshake
from leveret.cluster.links.handshake_connection import HandshakeConnection
from leveret.cluster.links.hello import Hello, NodeIdentity
from leveret.cluster.links.link import Link
from leveret.cluster.links.one_link import PROBE_MS, LinkDecision, decide
from leveret.cluster.links.refusals import (
    LinkRefusal,
    RefusalKind,
    duplicate,
    linked,
    too_many,
    wrong_certificate,
)
from leveret.cluster.links.tls import is_certificate_for

UNFINISHED_MAX = 100

logger = logging.getLogger("leveret.cluster")


class LinkTable(Protocol):
    """The links of a node, and the diallers."""

    def link_to(self, node: str) -> Link | None:
        """The link to a node."""

    def dialler_of(self, node: str) -> Dialler | None:
        """The dialler of a node."""

    def link_up(self, connection: HandshakeConnection, result: Established) -> None:
        """Make a connection the link to a node that has none."""


@dataclass
class _Probe:
    """A link that was asked for a sign of life, and the connections that would replace it."""

    link: Link
    timer: Timer
    waiting: list[tuple[HandshakeConnection, Hello]] = field(default_factory=list)


class Admission:
    """The handshakes of one node. own: this node. has_tls: whether certificates are checked."""

    def __init__(
        self,
        own: Callable[[], NodeIdentity],
        cookie: bytes,
        clock: Clock,
        table: LinkTable,
        *,
        has_tls: bool,
    ) -> None:
        self._own = own
        self._cookie = cookie
        self._clock = clock
        self._table = table
        self._has_tls = has_tls
        self._log_limit = LogLimit()
        self._accepted: dict[HandshakeConnection, None] = {}
        self._dialled: dict[HandshakeConnection, str] = {}
        self._probes: dict[str, _Probe] = {}
        self._is_closed = False

    @property
    def unfinished(self) -> int:
        """The number of accepted connections in their handshake."""
        return len(self._accepted)

    @property
    def is_probing(self) -> bool:
        """Whether a link was asked for a sign of life."""
        return bool(self._probes)

    def accepted(self) -> HandshakeConnection:
        """The protocol of a connection that another node has dialled."""
        connection = self._begin(wanted=None)
        if self._is_closed:
            connection.abandon()
            return connection
        self._accepted[connection] = None
        if len(self._accepted) > UNFINISHED_MAX:
            oldest = next((one for one in self._accepted if not one.is_proven), connection)
            oldest.give_up(too_many(UNFINISHED_MAX))
        return connection

    def dialled(self, node: str) -> HandshakeConnection:
        """The protocol of a connection to another node."""
        connection = self._begin(wanted=node)
        self._dialled[connection] = node
        return connection

    def _begin(self, wanted: str | None) -> HandshakeConnection:
        nonce = secrets.token_bytes(NONCE_OCTETS)
        return HandshakeConnection(
            Handshake(self._own(), self._cookie, nonce, wanted), self, self._clock
        )

    def link_went_down(self, node: str) -> None:
        """Let connections that waited for the sign of life of a link replace it: it is gone."""
        probe = self._probes.pop(node, None)
        if probe is not None:
            probe.timer.cancel()
            for connection, hello in probe.waiting:
                self._decide(connection, hello)

    def close(self) -> None:
        """Make no more links, and close connections in their handshake."""
        self._is_closed = True
        for probe in self._probes.values():
            probe.timer.cancel()
        self._probes.clear()
        for connection in [*self._accepted, *self._dialled]:
            connection.abandon()
        self._accepted.clear()
        self._dialled.clear()

    # Outcomes of handshakes

    def proven(self, connection: HandshakeConnection, hello: Hello) -> None:
        """Accept or refuse a dialler that knows the cookie."""
        if self._has_tls and not _is_certified(connection, hello):
            connection.refuse(wrong_certificate(hello, host_of(hello.node)))
        else:
            self._decide(connection, hello)

    def established(self, connection: HandshakeConnection, result: Established) -> None:
        """Make the link: the handshake is over."""
        self._accepted.pop(connection, None)
        node = self._dialled.pop(connection, None)
        dialler = self._table.dialler_of(node) if node is not None else None
        if dialler is not None:
            dialler.ended(connection, None)
        self._table.link_up(connection, result)

    def failed(self, connection: HandshakeConnection, refusal: LinkRefusal) -> None:
        """Report a failed handshake; the connection is closed."""
        node = self._dialled.pop(connection, None)
        if node is not None:
            # Its dialler reports it.
            dialler = self._table.dialler_of(node)
            if dialler is not None:
                dialler.ended(connection, refusal)
            return
        self._accepted.pop(connection, None)
        # A TLS handshake that fails is logged by the session (broker/net/tls_session.py).
        if connection.is_connected and not self._is_expected(connection, refusal):
            self.report(connection.address, connection.address.rpartition(":")[0], refusal)

    def _is_expected(self, connection: HandshakeConnection, refusal: LinkRefusal) -> bool:
        """Whether it needs no log line: of two nodes that dial each other, one gives up its
        attempt.
        """
        if refusal.kind is RefusalKind.CLOSED:
            return self._table.dialler_of(connection.claimed_node) is not None
        return refusal.kind is RefusalKind.LINKED

    def report(self, place: str, subject: str, refusal: LinkRefusal) -> None:
        """Log why there is no link with a place. subject: the key for the limit of lines."""
        addition = self._log_limit.permit(f"{subject} {refusal.kind}", self._clock.now_ms())
        if addition is not None:
            logger.warning("no link with %s: %s%s", place, refusal.sentence, addition)

    # Decisions

    def _decide(self, connection: HandshakeConnection, hello: Hello) -> None:
        if connection.is_over:
            return
        node, link = hello.node, self._table.link_to(hello.node)
        dialler = self._table.dialler_of(node)
        decision = decide(
            self._own().node,
            node,
            own_proof_sent=dialler is not None and dialler.has_sent_proof,
            is_linked=link is not None,
        )
        match decision:
            case LinkDecision.ACCEPT:
                connection.accept()
            case LinkDecision.REFUSE:
                connection.refuse(linked(hello))
            case LinkDecision.PROBE:
                assert link is not None
                self._probe(link, connection, hello)

    def _probe(self, link: Link, connection: HandshakeConnection, hello: Hello) -> None:
        """Ask a link for a sign of life before a new connection may replace it."""
        probe = self._probes.get(link.name)
        if probe is None:
            timer = self._clock.call_later_ms(PROBE_MS, lambda: self._found_silent(link))
            probe = self._probes[link.name] = _Probe(link, timer)
            link.ask_for_sign_of_life(lambda: self._found_alive(link))
        probe.waiting.append((connection, hello))

    def _found_alive(self, link: Link) -> None:
        link.ask_for_sign_of_life(None)
        probe = self._probes.pop(link.name)
        probe.timer.cancel()
        for connection, hello in probe.waiting:
            if connection.is_over:
                continue
            is_same_start = hello.incarnation == link.incarnation
            connection.refuse(linked(hello) if is_same_start else duplicate(hello))

    def _found_silent(self, link: Link) -> None:
        # This calls `link_went_down`.
        link.drop("it does not answer on this connection and has opened another one")


def _is_certified(connection: HandshakeConnection, hello: Hello) -> bool:
    der = connection.certificate()
    return der is not None and is_certificate_for(der, host_of(hello.node))
