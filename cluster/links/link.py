"""A link that is up: frames to and from one other node, over one connection.

Sending. Frames of one turn of the event loop are gathered, and written with one call at its end.
Gathered frames are joined to blocks of BLOCK_OCTETS; pieces from PIECE_OCTETS on are not copied, so
that data for several nodes are copied for none of them. Blocks wait here while the connection
accepts no more, and are written one after the other. The link is congested while more than its
limit waits, and drained when half of the limit is left.

Receiving. The bytes of a read are cut into frames, and each payload is given to its service; after
DECOMPRESSED_A_TURN the rest of them waits for the next turn, and nothing is read until then. The
service 0 is the link's own: a tick (nothing), a request for a sign of life and its answer, a
goodbye, and the messages between the links of the two nodes.

Closing. A system that closes a connection with unread data resets it, and drops its unsent data. So
a link sends a goodbye when it closes, and keeps reading until the other node, which has received
everything by then, closes the connection. (A half-close only works without TLS.)

Invariants.
  LK1  `link_down` is called once, when the link goes down, and nothing is received after it.
  LK2  `unsent_octets` is the size of `_gathered` and `_blocks`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from leveret.cluster.links.compression import (
    NONE,
    OCTETS_MAX,
    OCTETS_MIN,
    CompressionError,
    Compressor,
    Decompressor,
)
from leveret.cluster.links.frames import (
    COMPRESSED,
    FRAME_OCTETS_MAX,
    HEADER,
    HEADER_OCTETS,
    FrameCutter,
    LinkFrameError,
)
from leveret.cluster.links.services import (
    LIMITED_COUNTS_SERVICE,
    NODE_STATES_SERVICE,
    PAYLOAD_ERRORS,
    SERVICE_NAMES,
    Peer,
    Service,
    damaged_reason,
    shown_service,
)
from leveret.cluster.links.ticks import TickResult, Ticks

LINK_SERVICE = 0
TICK, QUESTION, ANSWER, GOODBYE = b"", b"?", b"!", b"."
BLOCK_OCTETS = 256 * 1024
"""The size of one read at the other end."""
PIECE_OCTETS = 16 * 1024
"""Joining a larger piece with others costs more than writing it as a block of its own."""
DECOMPRESSED_A_TURN = 2 * OCTETS_MAX
"""A read of 256 KiB may stand for hundreds of megabytes of equal octets. This takes a few
milliseconds."""
OCTETS_A_TURN = 8 * BLOCK_OCTETS
"""Written at most to a peer that accepts everything, before others have their turn: it takes a
millisecond."""
LENGTHS_MAX = {
    **dict.fromkeys((LINK_SERVICE, NODE_STATES_SERVICE, LIMITED_COUNTS_SERVICE), 64 * 1024 * 1024),
    # Only short payloads are compressed, and are shorter then.
    **dict.fromkeys(range(COMPRESSED, 2 * COMPRESSED), OCTETS_MAX + 1),
}
"""The limits of frames whose services need less than FRAME_OCTETS_MAX, by the service octet. A name
with its counts has a few dozen octets: this is enough for a million."""

logger = logging.getLogger("leveret.cluster")


class LinkOwner(Protocol):
    """The owner of the links of a node."""

    def link_down(self, link: "Link", reason: str) -> None:
        """A link has gone down; it delivers nothing more."""

    def link_drained(self, link: "Link") -> None:
        """A link is no longer congested."""

    def told(self, link: "Link", message: bytes) -> None:
        """A message from the links of the other node has arrived."""


class Link(asyncio.Protocol):
    """A `services.Peer`, while its connection is open.

    compression: the method by which to send, and the one by which the other node sends. is_paused:
    whether the connection takes no more for now. Octets are counted from when the link came up.
    """

    def __init__(
        self,
        name: str,
        incarnation: int,
        version: int,
        features: frozenset[str],
        transport: asyncio.Transport,
        owner: LinkOwner,
        services: Mapping[int, Service],
        unsent_octets_max: int,
        compression: tuple[str, str] = (NONE, NONE),
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.version = version
        self.features = features
        self.is_congested = False
        self.received_octets = 0
        self.sent_octets = 0
        self.unsent_octets = 0
        self._transport = transport
        self._owner = owner
        self._services = services
        self._unsent_octets_max = unsent_octets_max
        to_send, to_read = compression
        self._compressor = None if to_send == NONE else Compressor(to_send)
        self._decompressor = None if to_read == NONE else Decompressor(to_read)
        self._loop = asyncio.get_running_loop()
        self._cutter = FrameCutter(lengths_max=LENGTHS_MAX)
        # Frames that were read and wait for the next turn; nothing is read until then.
        self._waiting: list[tuple[int, bytes]] = []
        self._decompressed_octets = 0
        self._ticks = Ticks()
        self._gathered: list[bytes] = []
        self._gathered_octets = 0
        self._blocks: deque[bytes] = deque()
        self.is_paused = False
        # Whether `_flush` will be called, by the loop or when the transport accepts more.
        self._flush_is_due = False
        self._is_down = False
        # Why the link is being closed; empty while it is not.
        self._closing_reason = ""
        self._on_sign_of_life: Callable[[], None] | None = None
        self._unknown_services: set[int] = set()

    def __repr__(self) -> str:
        return f"<link to {self.name}>"

    @property
    def is_down(self) -> bool:
        """Whether the link has gone down."""
        return self._is_down

    # Sending

    def send(self, service: int, *pieces: bytes) -> None:
        """Send one frame, whose payload is the pieces joined."""
        if self._is_down or self._closing_reason:
            return
        octets = HEADER_OCTETS
        for piece in pieces:
            octets += len(piece)
        if self._compressor is not None and octets >= OCTETS_MIN:
            payload = b"".join(pieces)
            compressed = self._compressor.compressed(payload)
            if compressed is not None:
                service, pieces = service | COMPRESSED, (compressed,)
                octets = HEADER_OCTETS + len(compressed)
        length = octets - HEADER_OCTETS + 1
        if length > FRAME_OCTETS_MAX:
            raise ValueError(
                f"a frame of {length} octets for service {service}: {FRAME_OCTETS_MAX} are allowed"
            )
        gathered = self._gathered
        gathered.append(HEADER.pack(length, service))
        gathered += pieces
        self.sent_octets += octets
        self.unsent_octets += octets
        self._gathered_octets += octets
        if self._gathered_octets >= BLOCK_OCTETS:
            self._close_blocks()
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)
        if self.unsent_octets > self._unsent_octets_max:
            self.is_congested = True

    def _close_blocks(self) -> None:
        """Join the gathered pieces, except for large ones, which are blocks of their own."""
        gathered, begin = self._gathered, 0
        if self._gathered_octets >= PIECE_OCTETS:
            for position, piece in enumerate(gathered):
                if len(piece) >= PIECE_OCTETS:
                    self._blocks += (b"".join(gathered[begin:position]), piece)
                    begin = position + 1
        if begin < len(gathered):
            self._blocks.append(b"".join(gathered[begin:]))
        gathered.clear()
        self._gathered_octets = 0

    def _flush(self) -> None:
        """Write waiting blocks while the transport accepts them."""
        if self._is_down or self.is_paused:
            return
        if self._gathered:
            self._close_blocks()
        blocks, write = self._blocks, self._transport.write
        written = 0
        while blocks and written < OCTETS_A_TURN and not self.is_paused:
            block = blocks.popleft()
            written += len(block)
            self.unsent_octets -= len(block)
            write(block)
        if blocks and not self.is_paused:
            self._loop.call_soon(self._flush)
        else:
            # If it is paused, `resume_writing` flushes.
            self._flush_is_due = self.is_paused
        if self.is_congested and self.unsent_octets <= self._unsent_octets_max // 2:
            self.is_congested = False
            self._owner.link_drained(self)

    def pause_writing(self) -> None:
        """Called by the transport: the connection accepts no more."""
        self.is_paused = True
        self._flush_is_due = True

    def resume_writing(self) -> None:
        """Called by the transport: the connection accepts more."""
        self.is_paused = False
        self._flush()

    # Receiving

    def data_received(self, data: bytes) -> None:
        """Called by the transport: bytes of the other node."""
        if self._is_down:
            return
        self.received_octets += len(data)
        if self._on_sign_of_life is not None:
            self._on_sign_of_life()
        try:
            frames = self._cutter.cut(data)
        except LinkFrameError as error:
            self.drop(f"it sends damaged data: {error}")
            return
        if self._waiting:
            self._waiting += frames
        else:
            self._receive(frames)

    def _receive(self, frames: list[tuple[int, bytes]]) -> None:
        """Give frames to their services, up to the limit of a turn."""
        services, service, left = self._services, LINK_SERVICE, iter(frames)
        self._decompressed_octets = 0
        try:
            for service, payload in left:
                receiver = services.get(service)
                if receiver is not None:
                    receiver.received(self, payload)
                else:
                    self._receive_unusual(service, payload)
                    if self._decompressed_octets >= DECOMPRESSED_A_TURN:
                        self._put_off(list(left))
                if self._is_down:
                    return  # LK1
        except PAYLOAD_ERRORS as error:
            logger.debug("node %s sends damaged data", self.name, exc_info=True)
            self.drop(damaged_reason(service & ~COMPRESSED, error))
        except Exception:
            shown = shown_service(service & ~COMPRESSED)
            logger.exception("failed to handle a frame of node %s for %s", self.name, shown)
            self.drop(f"this node failed to handle a frame for {shown}, see the error above")

    def _put_off(self, frames: list[tuple[int, bytes]]) -> None:
        """Give frames to their services in the next turn."""
        if frames and not self._is_down:
            self._waiting = frames
            self._transport.pause_reading()
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._is_down:
            return
        frames, self._waiting = self._waiting, []
        self._receive(frames)
        if not self._waiting and not self._is_down:
            self._transport.resume_reading()

    def _receive_unusual(self, service: int, payload: bytes) -> None:
        if service & COMPRESSED and self._decompressor is not None:
            try:
                payload = self._decompressor.original(payload)
            except CompressionError as error:
                self.drop(f"it sends damaged data: a compressed frame cannot be read: {error}")
                return
            service &= ~COMPRESSED
            self._decompressed_octets += len(payload)
        if service == LINK_SERVICE:
            self._receive_own(payload)
        elif service in self._services:
            self._services[service].received(self, payload)
        elif service not in self._unknown_services and not self._closing_reason:
            self._unknown_services.add(service)
            # A node that joins a cluster gets frames before it runs their services.
            level = logging.DEBUG if service in SERVICE_NAMES else logging.INFO
            logger.log(
                level, "ignoring frames of node %s for %s, which this node does not run now",
                self.name, shown_service(service),
            )  # fmt: skip

    def _receive_own(self, payload: bytes) -> None:
        if payload == QUESTION:
            self.send(LINK_SERVICE, ANSWER)
        elif payload == GOODBYE:
            self.drop(self._closing_reason or "it has stopped")
        elif payload not in (TICK, ANSWER):
            self._owner.told(self, payload)

    # Signs of life

    def check(self) -> None:
        """Compare what was sent and received with the last check; drop a peer that is gone."""
        taken = self.sent_octets - self.unsent_octets - self._transport.get_write_buffer_size()
        match self._ticks.check(self.received_octets, self.sent_octets, taken):
            case TickResult.SEND_TICK:
                self.send(LINK_SERVICE, TICK)
            case TickResult.SILENT:
                self.drop("nothing was heard from it for net_ticktime")
            case TickResult.DOES_NOT_READ:
                self.drop("it has read nothing of what was sent for net_ticktime")

    def ask_for_sign_of_life(self, callback: Callable[[], None] | None) -> None:
        """Call back when anything is received from now on; None: stop waiting."""
        self._on_sign_of_life = callback
        if callback is not None:
            self.send(LINK_SERVICE, QUESTION)

    # The end

    def drop(self, reason: str) -> None:
        """Close the connection at once. Unsent data are lost."""
        if not self._is_down:
            self._transport.abort()
            self._go_down(reason)

    def close(self, reason: str) -> None:
        """Ask the other node to close the connection when it has received everything.

        Nothing more can be sent, and services get no further frames.
        """
        if not self._is_down and not self._closing_reason:
            self.send(LINK_SERVICE, GOODBYE)
            self._closing_reason = reason
            self._services = {}

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport: the connection has ended."""
        if not self._is_down:
            ending = "it closed the connection" if exc is None else f"the connection broke: {exc}"
            self._go_down(self._closing_reason or ending)

    def _go_down(self, reason: str) -> None:
        assert not self._is_down, "LK1"
        self._is_down = True
        self._gathered.clear()
        self._blocks.clear()
        self._cutter.clear()
        self._waiting.clear()
        self.unsent_octets = 0
        self._on_sign_of_life = None
        self._owner.link_down(self, reason)


def _is_a_peer(link: Link) -> Peer:
    """Let the type checker verify that a link is a peer."""
    return link
