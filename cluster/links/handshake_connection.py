"""A connection during its handshake: feeds the state machine and carries out its outputs.

It ends in exactly one call: `established`, and the connection is handed over, or `failed`, and it
is closed. A handshake that takes longer than LIMIT_MS fails.
"""

import asyncio
from typing import Protocol, cast

from leveret.broker.runtime.clock import Clock
from leveret.cluster.links.handshake import (
    Established,
    Failed,
    Handshake,
    Output,
    Proven,
    SendBytes,
)
from leveret.cluster.links.hello import Hello
from leveret.cluster.links.refusals import LinkRefusal, RefusalKind

LIMIT_MS = 5000


class HandshakeOwner(Protocol):
    """The object that began a handshake, or accepted it."""

    def proven(self, connection: "HandshakeConnection", hello: Hello) -> None:
        """A dialler knows the cookie: `accept` or `refuse` the connection."""

    def established(self, connection: "HandshakeConnection", result: Established) -> None:
        """The handshake is over: give the transport another protocol."""

    def failed(self, connection: "HandshakeConnection", refusal: LinkRefusal) -> None:
        """The connection is closed."""


class HandshakeConnection(asyncio.Protocol):
    """One side of a connection until its handshake is over. address: the other side's."""

    def __init__(self, handshake: Handshake, owner: HandshakeOwner, clock: Clock) -> None:
        self._handshake = handshake
        self._owner = owner
        self._clock = clock
        self._timer = clock.call_later_ms(LIMIT_MS, self._take_too_long)
        # None until the TLS handshake is over.
        self._transport: asyncio.Transport | None = None
        self._is_over = False
        self.is_proven = False
        self.address = "an unknown address"

    @property
    def is_over(self) -> bool:
        """Whether the owner has been called, or has abandoned the connection."""
        return self._is_over

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, after its TLS handshake if it has one."""
        return self._transport is not None

    @property
    def claimed_node(self) -> str:
        """The node name that the other side claims, proven or not; empty before its hello."""
        peer = self._handshake.peer
        return "" if peer is None else peer.node

    @property
    def has_sent_proof(self) -> bool:
        """Whether this is a dialler that waits for the acceptor's decision."""
        return not self._is_over and self._handshake.has_sent_proof

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the transport."""
        # uvloop's transports are not subclasses of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        if address:
            self.address = f"{address[0]}:{address[1]}"
        if self._is_over:
            self._transport.abort()
            return
        self._carry_out(self._handshake.start())

    def data_received(self, data: bytes) -> None:
        """Called by the transport."""
        if not self._is_over:
            self._carry_out(self._handshake.receive(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport."""
        if not self._is_over:
            reason = f": {exc}" if exc is not None else ""
            self._fail(
                LinkRefusal(
                    RefusalKind.CLOSED, f"it closed the connection in the handshake{reason}"
                )
            )

    def accept(self) -> None:
        """Accept the link."""
        self._carry_out(self._handshake.accept())

    def refuse(self, refusal: LinkRefusal) -> None:
        """Refuse the link, and tell the other side."""
        self._carry_out(self._handshake.refuse(refusal))

    def give_up(self, refusal: LinkRefusal) -> None:
        """Close the connection without a message to the other side."""
        if not self._is_over:
            self._fail(refusal)

    def abandon(self) -> None:
        """Close the connection; the owner is not called."""
        if not self._is_over:
            self._end()
            if self._transport is not None:
                self._transport.abort()

    def certificate(self) -> bytes | None:
        """The certificate of the other side, which was verified; None without TLS."""
        session = self._transport.get_extra_info("ssl_object") if self._transport else None
        der: bytes | None = session.getpeercert(True) if session is not None else None
        return der

    def hand_over(self) -> asyncio.Transport:
        """Return the transport of an established connection, for another protocol."""
        assert self._is_over
        assert self._transport is not None
        return self._transport

    def _carry_out(self, outputs: list[Output]) -> None:
        assert self._transport is not None
        for output in outputs:
            match output:
                case SendBytes(data):
                    self._transport.write(data)
                case Proven(hello):
                    self.is_proven = True
                    self._owner.proven(self, hello)
                case Established():
                    self._end()
                    self._owner.established(self, output)
                case Failed(refusal):
                    self._fail(refusal)

    def _take_too_long(self) -> None:
        self._fail(
            LinkRefusal(
                RefusalKind.TOO_SLOW, f"it did not finish the handshake in {LIMIT_MS // 1000} s"
            )
        )

    def _fail(self, refusal: LinkRefusal) -> None:
        self._end()
        if self._transport is not None:
            self._transport.close()
        self._owner.failed(self, refusal)

    def _end(self) -> None:
        assert not self._is_over
        self._is_over = True
        self._timer.cancel()
