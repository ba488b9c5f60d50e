"""The socket's side of a connection: when to read, what to write, and when to hold either back.

Output is gathered over a round of turns and written at its end, small pieces joined into one and
large ones left apart. A client that does not take what it is sent makes its connection congested:
its consumers get nothing more until it has caught up, so that what waits for it stays bounded.
A client that publishes while publishers are held back (broker/flow.py) is not read until that is
over; if it is for an alarm the connection is blocked, and the client is told.
"""

import asyncio
import logging
from typing import Any, cast

from pamqp import base, commands

from broker.amqp.frames import HEARTBEAT_FRAME
from broker.amqp.methods import method_frame
from broker.channel.channel import Channel
from broker.clock import Timer
from broker.net.tls import session_facts
from broker.services import Services

BIG_READ_BYTES = 128 * 1024
"""A chunk that large may be one of many."""
ROUND_READ_BYTES_MAX = 700 * 1024
"""What is read from one socket before others get their turn. Less would be fairer still, but each
pause costs two system calls: at one pause a chunk, a quarter of the time of large messages."""
LARGE_PART_BYTES = 4 * 1024
"""Output whose parts are this large on average is not joined: copying costs more than writev."""
WRITE_BUFFER_HIGH_BYTES = 256 * 1024
WRITE_BUFFER_LOW_BYTES = 64 * 1024
"""Between these the client is given time to catch up; enough to keep its socket busy meanwhile."""

logger = logging.getLogger("leveret.connection")


class SocketSide(asyncio.Protocol):
    """What a connection is to its socket.

    out, out_bytes: frames gathered in this round, and roughly how many bytes they are.
    is_congested: the client does not keep up; it gets no deliveries until it does.
    is_in_flow: the connection is not read because the store is behind.
    confirming: channels that have confirms to send at the end of the round.
    is_waiting: it is not read until somebody has said what the client may do.
    bytes_in, bytes_out, reads, writes: totals. tls: the TLS session, if there is one.
    """

    __slots__ = (
        "_blocked_as", "_bytes_this_round", "_is_paused_for_turn", "_is_refusing",
        "_is_write_paused", "_refusal_timer", "_round_of_reads", "_transport", "bytes_in",
        "bytes_out", "confirming", "is_congested", "is_dirty", "is_in_flow", "is_waiting",
        "name", "out", "out_bytes", "own_host", "own_port", "peer_host", "peer_port", "reads",
        "services", "tls", "writes",
    )  # fmt: skip

    def __init__(self, services: Services) -> None:
        self.services = services
        self.name = "?"
        self.peer_host = self.own_host = ""
        self.peer_port = self.own_port = 0
        self.tls: Any = None
        self.is_waiting = False
        self.reads = self.writes = 0
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.bytes_in = self.bytes_out = 0
        self.confirming: list[Channel] = []
        self.is_congested = False
        self.is_dirty = False
        self._transport: asyncio.Transport | None = None
        self._is_write_paused = False
        self._blocked_as = ""
        self._is_refusing = False
        self._refusal_timer: Timer | None = None
        self.is_in_flow = False
        self._is_paused_for_turn = False
        self._round_of_reads = 0
        self._bytes_this_round = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        # uvloop's transports are not subclasses of asyncio's, though they do all that those do.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)
        peer = transport.get_extra_info("peername") or ("?", 0)
        own = transport.get_extra_info("sockname") or ("?", 0)
        self.peer_host, self.peer_port = str(peer[0]), int(peer[1])
        self.own_host, self.own_port = str(own[0]), int(own[1])
        self.tls = transport.get_extra_info("ssl_object")
        self.name = f"{peer[0]}:{peer[1]} -> {own[0]}:{own[1]}"

    def has_capability(self, name: str) -> bool:
        """The client said at login that it can do this."""
        raise NotImplementedError

    def tls_facts(self) -> dict[str, Any]:
        """What management shows of the TLS session; nothing if there is none."""
        return {} if self.tls is None else session_facts(self.tls)

    def consumers_have_room(self) -> None:
        """The client keeps up again: its consumers may be given messages."""
        raise NotImplementedError

    # Reading

    def consider_giving_way(self, size: int) -> None:
        """Read on only after those who are waiting had their turn, if this is going on for long.

        The event loop reads a socket up to 32 times in a row as long as it fills the buffer.
        """
        rounds = self.services.turns.rounds
        if rounds != self._round_of_reads:
            self._round_of_reads, self._bytes_this_round = rounds, 0
        self._bytes_this_round += size
        if self._bytes_this_round < ROUND_READ_BYTES_MAX:
            return
        if self._transport is not None and not self._is_paused_for_turn and self.is_reading:
            self._is_paused_for_turn = True
            self._transport.pause_reading()
            self.services.turns.after_round(self._read_on)

    def _read_on(self) -> None:
        self._is_paused_for_turn = False
        self.resume_reading()

    @property
    def is_reading(self) -> bool:
        """The connection is not held back."""
        return not self._blocked_as and not self.is_in_flow and not self.is_waiting

    @property
    def publishing_state(self) -> str:
        """`blocked` by an alarm, in `flow` while the store is behind, or `running`.

        RabbitMQ's management shows it as a connection's state.
        """
        if self._blocked_as or self._is_refusing:
            return "blocked"
        return "flow" if self.is_in_flow else "running"

    def pause_reading(self) -> None:
        """Take nothing off the socket for now; the reason is noted elsewhere (`is_reading`)."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, if there is no reason left not to."""
        if self._transport is not None and self.is_reading and not self._is_paused_for_turn:
            self._transport.resume_reading()

    def hold_back(self) -> bool:
        """Publishers are held back and the client publishes: read no more until that is over.

        True if it has waited for so long that what it publishes is to be refused instead.
        """
        if self.services.alarms.are_in_force:
            if self._is_refusing:
                return True
            self._block()
        if self.services.flow.is_congested and not self.is_in_flow and self._transport is not None:
            self.is_in_flow = True
            self._transport.pause_reading()
        return False

    def congestion_changed(self) -> None:
        """The store got behind, or has caught up."""
        if self.is_in_flow and not self.services.flow.is_congested:
            self.is_in_flow = False
            self.resume_reading()

    def _block(self) -> None:
        if self._blocked_as or self._transport is None:
            return
        self._blocked_as = self.services.alarms.reason
        self._transport.pause_reading()
        if self.has_capability("connection.blocked"):
            self.send(0, commands.Connection.Blocked, reason=self._blocked_as)
        logger.warning("%s is blocked: %s", self.name, self._blocked_as)
        timeout_ms = self.services.config.publisher_blocked_timeout_ms
        if timeout_ms is not None:
            clock = self.services.clock
            self._refusal_timer = clock.call_later_ms(timeout_ms, self._refuse_from_now_on)

    def _refuse_from_now_on(self) -> None:
        """The alarm lasts too long: read on, and refuse what is published."""
        if self._blocked_as:
            self._is_refusing = True
            logger.warning("%s is still blocked: what it publishes is refused", self.name)
            self._blocked_as = ""
            self.resume_reading()

    def alarms_changed(self) -> None:
        """The broker calls this when an alarm comes or goes."""
        was_blocked = self._blocked_as or self._is_refusing
        if not was_blocked or self.services.alarms.are_in_force or self._transport is None:
            return
        self.stop_blocking()
        if self.has_capability("connection.blocked"):
            self.send(0, commands.Connection.Unblocked)

    def stop_blocking(self) -> None:
        """Read again, for whatever reason the connection was held back."""
        self._is_refusing = False
        if self._refusal_timer is not None:
            self._refusal_timer.cancel()
            self._refusal_timer = None
        if self._blocked_as and self._transport is not None:
            self._blocked_as = ""
            self.resume_reading()

    # Writing

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method, on a channel or on the connection itself."""
        self.out.append(method_frame(channel, method, **arguments))
        self.flush_later()

    def send_heartbeat(self) -> None:
        """Write a heartbeat frame."""
        self.out.append(HEARTBEAT_FRAME)
        self.flush_later()

    def flush_later(self) -> None:
        """Write what was gathered at the end of the round."""
        if not self.is_dirty:
            self.services.turns.flush_later(self)

    def flush(self) -> None:
        """Write what was gathered."""
        if self.confirming and not self.services.holds_confirms:
            confirming, self.confirming = self.confirming, []
            for channel in confirming:
                channel.send_confirms()
        parts, self.out = self.out, []
        gathered_bytes, self.out_bytes = self.out_bytes, 0
        transport = self._transport
        if transport is None or not parts:
            return
        self.writes += 1
        if gathered_bytes > LARGE_PART_BYTES * len(parts):
            transport.writelines(parts)
            self.bytes_out += gathered_bytes
        else:
            data = b"".join(parts)
            transport.write(data)
            self.bytes_out += len(data)
        if self.is_congested and not self._is_write_paused:
            self.is_congested = False
            self.consumers_have_room()

    def pause_writing(self) -> None:
        """The client does not keep up."""
        self._is_write_paused = self.is_congested = True

    def resume_writing(self) -> None:
        """The client caught up."""
        self._is_write_paused = self.is_congested = False
        self.consumers_have_room()

    def abort(self) -> None:
        """Close the socket at once, whatever is still unwritten."""
        if self._transport is not None:
            self._transport.abort()
