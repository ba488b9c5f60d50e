"""A channel of a client's connection.

Messages are handled in runs: a consumer's `take` is called with the deliveries that arrived
together, and `publish`, `ack` and `nack` only append to the connection's output. Nothing is awaited
for a message. Methods with answers are sent one after another; their answers arrive in the same
order.

Messages published or settled after the end of the channel are discarded, as are those in flight:
`closed` is done then, and a publisher gets no confirm for them.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from pamqp import base, commands

from leveret.broker.amqp.content_assembler import Content, ContentAssembler
from leveret.broker.amqp.errors import command_invalid, content_too_large, unexpected_frame
from leveret.broker.amqp.field_table import Table, bytes_of
from leveret.broker.amqp.frames import (
    BASIC_DELIVER,
    CLASS_BASIC,
    HEADER,
    METHOD,
    encode_frame,
    settlement_frame,
)
from leveret.broker.amqp.methods import (
    decode_method,
    encode_method,
    method_frame,
    method_name,
)
from leveret.broker.amqp.reply_codes import REPLY_SUCCESS
from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.broker.moving.client.ended import ChannelClosed, Closed, ConnectionClosed, by_server
from leveret.broker.moving.client.output import ClientOutput, PublishFrames
from leveret.broker.runtime.clock import Timer

BASIC_RETURN: Final = CLASS_BASIC << 16 | 50
BASIC_GET_OK: Final = CLASS_BASIC << 16 | 71
_BEFORE_CONTENT: Final = (BASIC_DELIVER, BASIC_RETURN, BASIC_GET_OK)
"""The methods of a server that content follows."""
_WITH_CONTENT: Final = (commands.Basic.Publish, commands.Basic.Get)
_NACK: Final = 120
_MULTIPLE: Final = 1
_REQUEUE: Final = 2
_BY_THIS_NODE: Final = Closed(REPLY_SUCCESS, "closed by this node")
_pack_nack = struct.Struct(">HHQB").pack

Take = Callable[[list[ClientDelivery]], object]
"""Called with a run of deliveries, in their order."""


class ReturnedMessage:
    """A message that the server could not route, and the reason."""

    __slots__ = ("body", "exchange", "properties", "reply_code", "reply_text", "routing_key")

    def __init__(self, method: commands.Basic.Return, content: Content) -> None:
        self.reply_code = method.reply_code or 0
        self.reply_text = method.reply_text or ""
        self.exchange = str(method.exchange)
        self.routing_key = str(method.routing_key)
        self.properties = content.properties
        self.body = content.body


class ChannelOwner(Protocol):
    """The interface of a connection for its channels."""

    @property
    def message_bytes_max(self) -> int:
        """The largest body that is taken."""

    def forget_channel(self, number: int) -> None:
        """The number of a channel is free again."""

    def await_answer(self, method: type[base.Frame]) -> Timer:
        """A method awaits its answer, with a time limit, until the result is cancelled."""


class _Call:
    """A method that waits for its answer: None if the channel ends first.

    take: takes the deliveries, if the method is basic.consume or basic.get.

    The end is not an exception of the future, which would be in a reference cycle with the awaiting
    frame.
    """

    __slots__ = ("answers", "future", "take")

    def __init__(self, method: type[base.Frame], take: Take | None) -> None:
        self.answers = method.valid_responses
        self.future: asyncio.Future[base.Frame | None] = asyncio.get_running_loop().create_future()
        self.take = take


class ClientChannel:
    """One open channel.

    closed: done when it has ended. on_confirmed: called with a delivery tag, whether all earlier
    ones are meant too, and whether it is an ack. on_returned: called with a message that was not
    routed. on_cancelled: called with the tag of a consumer that the server has cancelled.
    on_writable: called when `is_writable` becomes true again.
    """

    __slots__ = (
        "_assembler", "_begun", "_calls", "_consumers", "_error", "_exchange", "_frames",
        "_is_closing", "_is_confirming", "_is_flowing", "_is_mandatory", "_next_tag", "_output",
        "_owner", "_routing_key", "closed", "number", "on_cancelled", "on_confirmed",
        "on_returned", "on_writable",
    )  # fmt: skip

    def __init__(self, owner: ChannelOwner, output: ClientOutput, number: int) -> None:
        self._owner = owner
        self._output = output
        self.number = number
        self.closed: asyncio.Future[Closed] = asyncio.get_running_loop().create_future()
        self.on_confirmed: Callable[[int, bool, bool], object] = _no_counter
        self.on_returned: Callable[[ReturnedMessage], object] = _ignore
        self.on_cancelled: Callable[[str], object] = _ignore
        self.on_writable: Callable[[], object] = _no_waiter
        self._calls: deque[_Call] = deque()
        self._consumers: dict[bytes, Take] = {}
        self._is_closing = self._is_confirming = False
        self._is_flowing = True
        self._next_tag = 1
        self._error: type[ChannelClosed | ConnectionClosed] = ChannelClosed
        # The method and the frames of a content that has begun.
        self._begun: base.Frame | None = None
        self._assembler: ContentAssembler | None = None
        # Those of the previous publish.
        self._exchange = self._routing_key = ""
        self._is_mandatory = False
        self._frames: PublishFrames | None = None

    def __repr__(self) -> str:
        return f"<ClientChannel {self.number}>"

    # Methods

    def call(self, method: type[base.Frame], **arguments: Any) -> Coroutine[Any, Any, base.Frame]:
        """Send a method now, and await its answer with the result. Tables are `Table`s.

        Raises ChannelClosed and ConnectionClosed with the server's reply code and text, and
        ValueError for a method that has content or no answer.
        """
        return self._call(method, None, arguments)

    async def open(self) -> None:
        """Called by the connection, once."""
        try:
            await self._call(commands.Channel.Open, None, {})
        except asyncio.CancelledError:
            # The caller did not get the channel, so its number has to be freed.
            self._begin_close()
            raise

    async def close(self) -> None:
        """Close the channel; does nothing if it has ended."""
        self._begin_close()
        if not self.closed.done():
            awaited = self._owner.await_answer(commands.Channel.Close)
            try:
                await asyncio.shield(self.closed)
            finally:
                awaited.cancel()

    def _begin_close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._assembler = None
            self._send(commands.Channel.Close, reply_code=REPLY_SUCCESS, reply_text="Goodbye")

    def _call(
        self, method: type[base.Frame], take: Take | None, arguments: dict[str, Any]
    ) -> Coroutine[Any, Any, base.Frame]:
        has_content = take is None and method in _WITH_CONTENT
        if has_content or not method.valid_responses or arguments.get("nowait"):
            raise ValueError(f"{method_name(method)} is not a method with a plain answer")
        call: _Call | None = None
        if not self._is_closing:
            self._send(method, **arguments)
            call = _Call(method, take)
            self._calls.append(call)
        return self._answer(method, call)

    async def _answer(self, method: type[base.Frame], call: _Call | None) -> base.Frame:
        """The answer of the server. call: None if the channel has ended before it."""
        if call is None:
            raise self._error(self.closed.result() if self.closed.done() else _BY_THIS_NODE)
        awaited = self._owner.await_answer(method)
        try:
            answer = await call.future
        finally:
            awaited.cancel()
        if answer is None:
            raise self._error(self.closed.result())
        return answer

    async def consume(
        self,
        queue: str,
        take: Take,
        *,
        no_ack: bool = False,
        consumer_tag: str = "",
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> str:
        """Start a consumer; returns its tag, which the server chooses if none is given.

        take: may be called before this returns. It must not raise. Raises as `call` does.
        """
        answer = await self._call(
            commands.Basic.Consume, take,
            {
                "queue": queue, "consumer_tag": consumer_tag, "no_ack": no_ack,
                "exclusive": exclusive, "arguments": arguments or {},
            },
        )  # fmt: skip
        assert isinstance(answer, commands.Basic.ConsumeOk)
        return str(answer.consumer_tag)

    async def get(self, queue: str, *, no_ack: bool = False) -> ClientDelivery | None:
        """Take a message from a queue; None if it is empty. Raises as `call` does."""
        got: list[ClientDelivery] = []
        await self._call(commands.Basic.Get, got.extend, {"queue": queue, "no_ack": no_ack})
        return got[0] if got else None

    async def cancel(self, consumer_tag: str) -> None:
        """Stop a consumer. Raises as `call` does."""
        await self._call(commands.Basic.Cancel, None, {"consumer_tag": consumer_tag})

    def send_unanswered(self, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method without waiting for an answer; a refusal closes the channel."""
        if not self._is_closing:
            self._send(method, nowait=True, **arguments)

    def consume_unanswered(
        self, queue: str, take: Take, consumer_tag: str, *, no_ack: bool, arguments: Table
    ) -> None:
        """Start a consumer without waiting for an answer; a refusal closes the channel."""
        if not self._is_closing:
            self._consumers[bytes_of(consumer_tag)] = take
            self._send(
                commands.Basic.Consume,
                queue=queue, consumer_tag=consumer_tag, no_ack=no_ack, nowait=True,
                arguments=arguments,
            )  # fmt: skip

    def cancel_unanswered(self, consumer_tag: str) -> None:
        """Stop a consumer without waiting for an answer; deliveries in flight are still taken."""
        if not self._is_closing:
            self._send(commands.Basic.Cancel, consumer_tag=consumer_tag, nowait=True)

    async def confirm(self) -> None:
        """Have the server confirm messages published from now on. Raises as `call` does."""
        self._is_confirming = True
        await self._call(commands.Confirm.Select, None, {})

    # Messages

    @property
    def is_writable(self) -> bool:
        """Whether more should be published now: neither socket nor server asks for a pause.

        False if the channel has ended: its publishes would be discarded.
        """
        return self._is_flowing and not self._is_closing and self._output.is_writable

    def publish(
        self,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
        mandatory: bool = False,
    ) -> int:
        """Publish a message; returns its delivery tag, or 0 without confirms.

        properties: as on the wire. exchange, routing_key: at most 255 bytes in UTF-8. Raises
        ValueError if they are longer, or the properties do not fit into a frame of the server.
        """
        frames = self._frames
        if (
            frames is None or routing_key != self._routing_key or exchange != self._exchange
            or mandatory != self._is_mandatory
        ):  # fmt: skip
            frames = self._publish_frames(exchange, routing_key, mandatory)
        if not self._is_closing:
            self._output.publish(frames, properties, body)
        if not self._is_confirming:
            return 0
        tag = self._next_tag
        self._next_tag = tag + 1
        return tag

    def _publish_frames(self, exchange: str, routing_key: str, mandatory: bool) -> PublishFrames:
        method = encode_method(
            commands.Basic.Publish,
            exchange=exchange, routing_key=routing_key, mandatory=mandatory,
        )  # fmt: skip
        frames = self._frames = PublishFrames(self.number, method)
        self._exchange, self._routing_key, self._is_mandatory = exchange, routing_key, mandatory
        return frames

    def ack(self, tag: int, multiple: bool = False) -> None:
        """Acknowledge a delivery, or all up to it."""
        if not self._is_closing:
            self._output.write(settlement_frame(self.number, True, tag, multiple))

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        """Refuse a delivery, or all up to it."""
        if not self._is_closing:
            bits = (_MULTIPLE if multiple else 0) | (_REQUEUE if requeue else 0)
            payload = _pack_nack(CLASS_BASIC, _NACK, tag, bits)
            self._output.write(encode_frame(METHOD, self.number, payload))

    # Input from the server. Faults close the connection (incoming.py).

    def deliver(self, consumer_tag: bytes, deliveries: list[ClientDelivery]) -> None:
        """Pass deliveries on to their consumer. Raises ConnectionFault 503 if there is none."""
        if self._assembler is not None:
            raise unexpected_frame("expected content, got basic.deliver instead")
        if not self._is_closing:
            self._consumer(consumer_tag)(deliveries)

    def _consumer(self, consumer_tag: bytes) -> Take:
        take = self._consumers.get(consumer_tag)
        if take is None:
            told = consumer_tag.decode("utf-8", "backslashreplace")
            raise command_invalid(f"a delivery for the unknown consumer '{told}'")
        return take

    def confirmed(self, tags: list[int], multiple: bool, is_ack: bool) -> None:
        """The server has confirmed or refused messages."""
        for tag in tags:
            self.on_confirmed(tag, multiple, is_ack)

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle a frame. Raises ConnectionFault and UnreadableMethod."""
        if self._assembler is not None:
            self._receive_content(self._assembler, kind, payload)
        elif kind != METHOD:
            if not self._is_closing:
                raise unexpected_frame("expected a method, got content instead")
        elif int.from_bytes(payload[:4], "big") in _BEFORE_CONTENT:
            self._begin_content(payload)
        else:
            self._receive_method(decode_method(payload))

    def _begin_content(self, payload: bytes) -> None:
        if self._is_closing:
            # Later frames are not kept either: they were sent before the server knew of the close.
            return
        method = decode_method(payload)
        if isinstance(method, commands.Basic.Deliver):
            self._consumer(bytes_of(str(method.consumer_tag)))
        elif isinstance(method, commands.Basic.GetOk):
            self._answered_by(method)
        self._begun, self._assembler = method, ContentAssembler(b"")

    def _receive_content(self, assembler: ContentAssembler, kind: int, payload: bytes) -> None:
        content = assembler.add(kind, payload)
        if kind == HEADER:
            self._check_size(assembler.body_bytes)
        if content is None:
            return
        method, self._begun, self._assembler = self._begun, None, None
        if isinstance(method, commands.Basic.Return):
            self.on_returned(ReturnedMessage(method, content))
            return
        assert isinstance(method, commands.Basic.Deliver | commands.Basic.GetOk)
        delivery = ClientDelivery(
            method.delivery_tag or 0, method.redelivered, str(method.exchange),
            str(method.routing_key), content.properties, content.body,
        )  # fmt: skip
        if isinstance(method, commands.Basic.Deliver):
            self.deliver(bytes_of(str(method.consumer_tag)), [delivery])
        else:
            self._got(method, delivery)

    def _got(self, method: commands.Basic.GetOk, delivery: ClientDelivery) -> None:
        take = self._answered_by(method).take
        if take is not None:
            take([delivery])
        self._receive_answer(method)

    def _check_size(self, body_bytes: int) -> None:
        most = self._owner.message_bytes_max
        if body_bytes > most:
            raise content_too_large(
                f"the server has begun a message of {body_bytes} bytes, and this node takes "
                f"{most} at most: see max_message_size"
            )

    def _receive_method(self, method: base.Frame) -> None:
        if isinstance(method, commands.Channel.Close):
            self._send(commands.Channel.CloseOk)
            self._closed_by_server(by_server(method.reply_code, method.reply_text))
        elif isinstance(method, commands.Channel.CloseOk) and self._is_closing:
            self._owner.forget_channel(self.number)
            self.end(_BY_THIS_NODE, ChannelClosed)
        elif self._is_closing:
            # The server sent it before it knew of the close.
            return
        elif isinstance(method, commands.Basic.Ack):
            self.confirmed([method.delivery_tag], method.multiple, True)
        elif isinstance(method, commands.Basic.Nack):
            self.confirmed([method.delivery_tag], method.multiple, False)
        elif isinstance(method, commands.Basic.Cancel):
            self._cancelled(method)
        elif isinstance(method, commands.Channel.Flow):
            self._set_flowing(bool(method.active))
        else:
            self._receive_answer(method)

    def _answered_by(self, method: base.Frame) -> _Call:
        """The method that is answered by this one. Raises ConnectionFault 503 if there is none."""
        if not self._calls or method.name not in self._calls[0].answers:
            raise command_invalid(f"{method_name(method)} is not expected")
        return self._calls[0]

    def _receive_answer(self, method: base.Frame) -> None:
        call = self._answered_by(method)
        self._calls.popleft()
        if isinstance(method, commands.Basic.ConsumeOk) and call.take is not None:
            self._consumers[bytes_of(str(method.consumer_tag))] = call.take
        elif isinstance(method, commands.Basic.CancelOk):
            self._consumers.pop(bytes_of(str(method.consumer_tag)), None)
        if not call.future.done():
            call.future.set_result(method)

    def _cancelled(self, method: commands.Basic.Cancel) -> None:
        tag = str(method.consumer_tag)
        if not method.nowait:
            self._send(commands.Basic.CancelOk, consumer_tag=tag)
        if self._consumers.pop(bytes_of(tag), None) is not None:
            self.on_cancelled(tag)

    def _set_flowing(self, is_active: bool) -> None:
        self._send(commands.Channel.FlowOk, active=is_active)
        was_writable = self.is_writable
        self._is_flowing = is_active
        if self.is_writable and not was_writable:
            self.on_writable()

    def _send(self, method: type[base.Frame], **arguments: Any) -> None:
        self._output.write(method_frame(self.number, method, **arguments))

    # The end

    def _closed_by_server(self, closed: Closed) -> None:
        if not self._is_closing:
            # Otherwise the answer to this channel's own close is still to come.
            self._owner.forget_channel(self.number)
        self.end(closed, ChannelClosed)

    def end(self, closed: Closed, error: type[ChannelClosed | ConnectionClosed]) -> None:
        """The channel has ended. error: raised by the methods that wait, and by later ones."""
        if self.closed.done():
            return
        self._is_closing = True
        self._error = error
        self._consumers.clear()
        self._assembler = None
        # Their owners may refer to this channel.
        self.on_confirmed, self.on_writable = _no_counter, _no_waiter
        self.on_returned = self.on_cancelled = _ignore
        self.closed.set_result(closed)
        for call in self._calls:
            if not call.future.done():
                call.future.set_result(None)
        self._calls.clear()

    def output_is_writable(self) -> None:
        """The connection's output takes messages again."""
        if self._is_flowing and not self._is_closing:
            self.on_writable()


def _ignore(_: object) -> None:
    """The default for events that the owner does not listen to."""


def _no_counter(_tag: int, _multiple: bool, _is_ack: bool) -> None:
    """The default for confirms."""


def _no_waiter() -> None:
    """The default for `on_writable`."""
