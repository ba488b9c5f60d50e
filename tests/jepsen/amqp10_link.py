"""A client of AMQP 1.0 with one session and one link, which ends when anything goes wrong with it.

Its frames are made and read by the codec of the broker. A node that is silent for too long is lost.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable

from leveret.broker.amqp10.sections import Amqp10Message
from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.login import HEADER, SASL_HEADER
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Outcome,
    SaslInit,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from tests.protocol.amqp10_peer import encoded, frame_with, read_frames

SILENT_SECONDS = 8.0
"""A node that has sent nothing for so long, though it has to every four seconds, is lost."""
WINDOW = 1000
SERIAL = 1 << 32
GUEST = SaslInit("PLAIN", b"\0guest\0guest")
DURABLE = Value("boolean", True)


class Amqp10Link:
    """A link to a queue, or from one. Raises OSError from all methods when it is lost.

    received: called with each message and its delivery-id. is_lost: it has ended.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received: Callable[[int, Amqp10Message], object] = lambda delivery_id, message: None
        self.is_lost = False
        self._reader, self._writer = reader, writer
        self._answers: dict[type, asyncio.Future[object]] = {}
        self._outcomes: dict[int, asyncio.Future[Outcome | None]] = {}
        self._has_room = asyncio.Event()
        self._sent = self._may_send = self._window_end = 0
        self._incoming_id = self._deliveries = self._settled = self._unsettled_max = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, host: str, port: int) -> "Amqp10Link":
        """Connect, and begin a session."""
        async with asyncio.timeout(SILENT_SECONDS):
            link = cls(*await asyncio.open_connection(host, port))
            try:
                link._writer.write(SASL_HEADER + frame_with(GUEST) + HEADER)
                link._send(Open("test", idle_time_out=int(1000 * SILENT_SECONDS / 2)))
                begun = await link._answer(Begin, Begin(None, 0, WINDOW, WINDOW))
            except BaseException:
                await link.close()
                raise
        link._incoming_id = begun.next_outgoing_id
        link._window_end = begun.incoming_window
        return link

    async def close(self) -> None:
        """Close the socket."""
        self._reading.cancel()
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._reading
        self._lose()

    async def publish_to(self, queue: str) -> None:
        """Attach the link to a queue."""
        target = Target(f"/queues/{queue}")
        await self._answer(
            Attach,
            Attach("link", 0, SENDER, source=Source(), target=target, initial_delivery_count=0),
        )

    async def publish(self, body: str) -> None:
        """Publish a message. Raises ConnectionError if it is not accepted."""
        while self._sent >= min(self._may_send, self._window_end):
            self._has_room.clear()
            await self._has_room.wait()
            self._check()
        delivery_id = self._sent
        self._sent += 1
        outcome = self._outcomes[delivery_id] = asyncio.get_running_loop().create_future()
        self._send(
            Transfer(0, delivery_id, struct.pack(">I", delivery_id), 0, False),
            encoded(body, header={"durable": DURABLE}),
        )
        if not isinstance(await outcome, Accepted):
            raise ConnectionError(f"{outcome.result()} for {body}")

    async def consume_from(self, queue: str, unsettled_max: int) -> None:
        """Attach the link to a queue. unsettled_max: how many messages it may hold."""
        await self._answer(
            Attach, Attach("link", 0, RECEIVER, source=Source(f"/queues/{queue}"), target=Target())
        )
        self._unsettled_max = unsettled_max
        self._give_credit()

    def settle(self, delivery_id: int, outcome: Outcome) -> None:
        """Settle a message."""
        self._send(Disposition(RECEIVER, delivery_id, None, True, outcome))
        self._settled += 1
        self._give_credit()

    def _give_credit(self) -> None:
        credit = self._unsettled_max - (self._deliveries - self._settled)
        self._send(Flow(self._incoming_id, WINDOW, 0, WINDOW, 0, self._deliveries, credit))

    # Frames

    def _send(self, performative: object, payload: bytes = b"") -> None:
        self._check()
        self._writer.write(frame_with(performative, payload))

    def _check(self) -> None:
        if self.is_lost:
            raise ConnectionError("the link is lost")

    async def _answer(self, kind: type, request: object) -> object:
        answer = self._answers[kind] = asyncio.get_running_loop().create_future()
        self._send(request)
        return await answer

    async def _read(self) -> None:
        rest = b""
        try:
            while True:
                async with asyncio.timeout(SILENT_SECONDS):
                    data = await self._reader.read(1 << 16)
                if not data:
                    break
                frames, rest = read_frames(rest + data)
                for frame in frames:
                    self._handle(frame)
        finally:
            self._lose()

    def _handle(self, frame) -> None:
        it = frame.performative
        if isinstance(it, (Detach, End, Close)) or (isinstance(it, SaslOutcome) and it.code):
            raise ConnectionError(f"{it}")
        if isinstance(it, Transfer):
            self._incoming_id = (self._incoming_id + 1) % SERIAL
            self._deliveries += 1
            self.received(it.delivery_id, frame.message)
        elif isinstance(it, Disposition) and it.role is RECEIVER:
            for delivery_id in range(it.first, (it.first if it.last is None else it.last) + 1):
                self._outcomes.pop(delivery_id).set_result(it.state)
        elif isinstance(it, Flow):
            self._window_end = it.next_incoming_id + it.incoming_window
            if it.handle is not None:
                self._may_send = (it.delivery_count or 0) + it.link_credit
            self._has_room.set()
        elif type(it) in self._answers:
            self._answers.pop(type(it)).set_result(it)

    def _lose(self) -> None:
        self.is_lost = True
        self._has_room.set()
        for waiting in (self._answers, self._outcomes):
            for answer in waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the link is lost"))
                    # Perhaps no one waits for it: it is then not reported.
                    answer.exception()
            waiting.clear()
