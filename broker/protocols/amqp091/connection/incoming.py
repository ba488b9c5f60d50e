"""Incoming frames: dispatches them as method calls, in order, and handles faults.

The frame scanner calls back for each frame (`on_publish`, `on_ack`, `on_frame`). `_handle` is the
only place that catches `ChannelFault` and `ConnectionFault`; it closes the channel or connection.
A method that waits for an answer holds its channel but no other one (pending_methods.py).
Input that is more than a turn's work waits for the next turn (net/input_steps.py).
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from pamqp import base, commands

from leveret.broker.amqp.content_assembler import ContentAssembler
from leveret.broker.amqp.errors import (
    ChannelFault,
    ConnectionFault,
    Fault,
    format_snippet,
    frame_error,
    internal_error,
    unexpected_frame,
    without_method,
)
from leveret.broker.amqp.frames import (
    BASIC_ACK,
    BASIC_PUBLISH,
    HEADER,
    HEARTBEAT,
    METHOD,
    FrameSink,
    is_known_frame,
)
from leveret.broker.amqp.methods import METHOD_ID_BYTES, UnreadableMethod, decode_method
from leveret.broker.amqp.properties import PropertiesError
from leveret.broker.events.taps import Taps
from leveret.broker.net.input_steps import InputSteps
from leveret.broker.net.reading import MANY_BYTES, MANY_MESSAGES, Reading
from leveret.broker.protocols.amqp091.channel import dispatch
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.protocols.amqp091.channel.publish_arguments import target_of
from leveret.broker.protocols.amqp091.channel.publish_runs import Runs
from leveret.broker.protocols.amqp091.connection.closing import Closing
from leveret.broker.protocols.amqp091.connection.held import FRAME_COST_BYTES
from leveret.broker.protocols.amqp091.connection.open_channels import OpenChannels
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.amqp091.connection.pending_methods import PendingMethods
from leveret.broker.protocols.ending import CLOSING, GONE, HANDSHAKE, RUNNING
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.pending import Steps
from leveret.broker.runtime.turns import TurnOver
from leveret.broker.services.services import Services
from leveret.broker.sessions import consumer_timeouts, publishing, settling
from leveret.broker.sessions.targets import PublishTarget, Targets
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Entry

METHOD_WORK: Final = 250
ACK_WORK: Final = 16
FRAME_WORK: Final = 8
"""The work of a method other than basic.publish and basic.ack, of an ack that is not passed on in a
run, and of any other frame, in the units of broker/runtime/turns.py. A declaration takes 100
microseconds. Each byte of a method counts as one, for tables, which are decoded and encoded again.
"""


logger = logging.getLogger("leveret.connection")


class Receiver(Protocol):
    """The connection that receives the frames.

    targets: the cached publish targets.
    """

    services: Services
    ending: Closing
    output: Output
    reading: Reading
    open_channels: OpenChannels
    targets: Targets

    @property
    def blames_methods(self) -> bool:
        """Whether a fault names the failed method."""

    def handle_method(self, method: base.Frame) -> None:
        """Handle a method on channel 0. Raises ConnectionFault."""


class Incoming(FrameSink):
    """The frames of one connection.

    steps: the input that waits for its turn.
    """

    __slots__ = (
        "_acked", "_acked_queue", "_channel_at_work", "_channels", "_closing", "_connection",
        "_flow", "_method_at_work", "_open_channels", "_pending", "_reading", "_recent_targets",
        "_services", "_targets", "_turns", "steps",
    )  # fmt: skip

    def __init__(self, connection: Receiver) -> None:
        self._connection = connection
        self._services = connection.services
        self._flow = connection.services.flow
        self._turns = connection.services.turns
        self._closing = connection.ending
        self._reading = connection.reading
        self._open_channels = connection.open_channels
        self._channels = connection.open_channels.by_number
        self._targets = connection.targets
        self._recent_targets = connection.targets.recent
        self._method_at_work = 0
        self._channel_at_work: Channel | None = None
        self._acked: list[Entry] = []
        self._acked_queue: QueueClient | None = None
        self._pending = PendingMethods(
            connection.services, connection.ending, connection.output, connection.reading,
            self._channels, self.handle, self._set_at_work,
        )  # fmt: skip
        self.steps = InputSteps(self._turns, self._reading, self._handle)
        self._reading.unblocked = self.steps.unblocked

    # Faults

    def handle(self, step: Callable[[], object]) -> None:
        """Handle a step of the connection's input, in this turn and in later ones if it is long.

        step: when called again after a fault, or after `TurnOver`, continues after the frame or
        method that raised it.
        """
        self.steps.do(step)

    def _handle(self, step: Callable[[], object]) -> None:
        """Call `step` until it returns; a fault closes its channel or connection."""
        while True:
            try:
                step()
                self._settle_acked()
                return
            except Fault as fault:
                self._fail(fault)
            except TurnOver:
                raise
            except UnreadableMethod as unreadable:
                logger.error(
                    "%s sent a method that cannot be read: %s", str(self._connection), unreadable
                )
                self._closing.drop()
            except Exception:
                logger.exception(
                    "%s: an internal error; the connection is closed", str(self._connection)
                )
                self._closing.drop()

    def _fail(self, fault: Fault) -> None:
        """Close a channel or the connection, after the channel's replies to earlier methods."""
        self._blame_method(fault)
        channel = self._channel_at_work
        has_method = self._connection.blames_methods
        if has_method and self._pending.hold_for_replies(channel, fault, self._method_at_work):
            return
        if isinstance(fault, ChannelFault):
            assert channel is not None, "it is of a channel"
            channel.fail(fault)
        elif isinstance(fault, ConnectionFault):
            self._closing.fail(fault)

    def _blame_method(self, fault: Fault) -> None:
        """Set the fault's class and method ids, unless it has them or no method failed."""
        if fault.class_id or not fault.has_method or not self._connection.blames_methods:
            return
        fault.class_id = self._method_at_work >> 16
        fault.method_id = self._method_at_work & 0xFFFF

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Close each channel that holds a delivery unsettled for longer than its timeout."""
        for channel in tuple(self._channels.values()):
            self._check_timeout(channel, partial(consumer_timeouts.check, channel), timeout_ms)

    def end_timed_out(self, number: int, timeout_ms: int) -> None:
        """Close a channel that has held deliveries for too long, unless it has ended."""
        channel = self._channels.get(number)
        if channel is not None:
            self._check_timeout(channel, channel.fail_timed_out, timeout_ms)

    def _check_timeout(
        self, channel: Channel, check: Callable[[int], None], timeout_ms: int
    ) -> None:
        """Close a channel for which `check` raises a fault, and drop its kept frames."""
        self.handle(partial(self._check_channel, channel, check, timeout_ms))
        self.handle(partial(self._continue_closed, channel))

    def _check_channel(
        self, channel: Channel, check: Callable[[int], None], timeout_ms: int
    ) -> None:
        self._channel_at_work, self._method_at_work = channel, 0
        if not channel.is_closing:
            check(timeout_ms)

    def _continue_closed(self, channel: Channel) -> None:
        if channel.is_closing:
            self._pending.continue_channel(channel.number)

    # Methods that wait

    def run(self, channel: Channel | None, steps: Steps, describe: Callable[[], str]) -> None:
        """Run a method; if it waits, hold its channel (`PendingMethods.run`)."""
        self._pending.run(channel, steps, describe, self._method_at_work)

    def _set_at_work(self, channel: Channel | None, method_index: int) -> None:
        self._channel_at_work, self._method_at_work = channel, method_index

    def release(self) -> None:
        """The connection ends: close all pending operations."""
        self.steps.clear()
        self._pending.close()

    def disconnect(self) -> None:
        """The socket is closed: no more input is handled."""
        self._channel_at_work = self._acked_queue = None
        self._pending.disconnect()
        self.steps.disconnect()

    @property
    def is_publishing(self) -> bool:
        """Whether the last method that arrived was a publish."""
        return self._method_at_work == BASIC_PUBLISH

    # Frames (amqp/frames.py calls these)

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: list[bytes],
        bodies: list[bytes],
        body_bytes: int,
    ) -> None:
        """Messages with the same method arguments, each with its properties and its body."""
        target_channel = self._channels.get(channel)
        if target_channel is None or not target_channel.takes_methods:
            size = len(bodies) * FRAME_COST_BYTES + body_bytes
            if not self._pending.keep(
                channel, size, self.on_publish, channel, arguments, properties, bodies, body_bytes
            ):
                self._method_at_work, self._channel_at_work = BASIC_PUBLISH, None
                self._open_channels.require(channel, self._closing.state)
            return
        if self._acked_queue is not None:
            self._settle_acked()
        self._method_at_work = BASIC_PUBLISH
        self._channel_at_work = target_channel
        if target_channel.assembler is not None:
            target_channel.assembler.add(METHOD, b"")
        target = self._recent_targets.get(arguments) or target_of(self._targets, arguments)
        size_max = target_channel.message_bytes_max
        runs = Runs(target, properties, bodies, body_bytes, size_max)
        size = len(bodies) * FRAME_COST_BYTES + body_bytes
        self._publish_runs(target_channel, target, runs, size)

    def _publish_runs(self, channel: Channel, target: PublishTarget, runs: Runs, size: int) -> None:
        """Publish runs one after the other, in this turn and in later ones.

        size: an upper limit of their memory while they wait.
        """
        while (run := self._next_run(runs)) is not None:
            if not channel.takes_methods:
                runs.put_back(run)
                self._pending.keep_rest(
                    channel.number, size, self._publish_runs, channel, target, runs, size
                )
                return
            self._method_at_work = BASIC_PUBLISH
            self._channel_at_work = channel
            if self._flow.is_held:
                if self._reading.hold_back(run.messages[0].header.is_persistent):
                    publishing.refuse(channel, len(run.messages), self._services.alarms.reason)
                    continue
                if self._reading.is_blocked:
                    # This publish waits, too: otherwise a client could publish one message with
                    # each new connection.
                    runs.put_back(run)
                    raise self._turn_over(channel, target, runs, size)
            count = runs.take_work(run, self._turns, target.work)
            if count == len(run.messages):
                self._publish(channel, target, run, runs, size)
                continue
            part, rest = run.split(count)
            runs.put_back(rest)
            if count:
                self._publish(channel, target, part, runs, size)
            raise self._turn_over(channel, target, runs, size)

    def _turn_over(
        self, channel: Channel, target: PublishTarget, runs: Runs, size: int
    ) -> TurnOver:
        return TurnOver(partial(self._publish_runs, channel, target, runs, size))

    def _next_run(self, runs: Runs) -> Publication | None:
        try:
            return runs.take()
        except PropertiesError as error:
            logger.error(
                "%s: cannot decode the properties of a message: %s", str(self._connection), error
            )
            raise without_method(internal_error("")) from None

    def _publish(
        self, channel: Channel, target: PublishTarget, run: Publication, later: Runs, size: int
    ) -> None:
        """Publish a run. later: the runs that follow it, for the case that this turn ends first."""
        steps = publishing.publish(channel, target, run)
        if steps is not None:
            try:
                self.run(channel, steps, partial(publishing.described, channel, target))
            except TurnOver as over:
                rest = self._turn_over(channel, target, later, size)
                raise over.followed_by(rest) from None
        elif len(run.messages) >= MANY_MESSAGES or run.body_bytes >= MANY_BYTES:
            self._reading.hold_back_for(target.queues)

    def on_ack(self, channel: int, delivery_tags: list[int], multiple: int) -> None:
        """basic.ack of each of the tags. If they are multiple, there is only one."""
        target_channel = self._channels.get(channel)
        if target_channel is None or not target_channel.takes_methods:
            size = FRAME_COST_BYTES * (len(delivery_tags) - 1)
            if not self._pending.keep(channel, size, self.on_ack, channel, delivery_tags, multiple):
                self._method_at_work, self._channel_at_work = BASIC_ACK, None
                self._open_channels.require(channel, self._closing.state)
            return
        self._method_at_work = BASIC_ACK
        self._channel_at_work = target_channel
        if target_channel.assembler is not None:
            target_channel.assembler.add(METHOD, b"")
        if multiple or target_channel.transaction is not None:
            self._ack_one_by_one(target_channel, delivery_tags, multiple)
            return
        tracer = target_channel.vhost.tracer
        if tracer is not None and tracer.hears_acks:
            self._trace_acks(target_channel, tracer, delivery_tags)
        take = target_channel.unacked.take
        for delivery_tag in delivery_tags:
            record = take(delivery_tag)
            if record is None:
                target_channel.require_taken_back(delivery_tag)
                continue
            if record.queue is not self._acked_queue:
                self._settle_acked()
                self._acked_queue = record.queue
            self._acked.append(record.entry)
            if record.consumer is not None:
                record.consumer.settled()

    def _trace_acks(self, channel: Channel, tracer: Taps, delivery_tags: list[int]) -> None:
        """Report acks to the tracer before they have any effect, up to the first that fails."""
        records = channel.unacked.records
        traced: dict[int, Unacked] = {}
        for delivery_tag in delivery_tags:
            if delivery_tag in traced or delivery_tag not in records:
                break
            traced[delivery_tag] = records[delivery_tag]
        if traced:
            tracer.acked(channel, list(traced.items()))

    def _ack_one_by_one(self, channel: Channel, delivery_tags: list[int], multiple: int) -> None:
        """Acks that do more than settle one message each."""
        self._settle_acked()
        for place, delivery_tag in enumerate(delivery_tags, 1):
            steps = settling.ack(channel, delivery_tag, multiple)
            self._turns.work_left -= ACK_WORK
            try:
                if steps is not None:
                    self.run(channel, steps, lambda: "basic.ack")
                if self._turns.work_left <= 0:
                    raise TurnOver
            except TurnOver as over:
                rest = delivery_tags[place:]
                steps_after = [partial(self.on_ack, channel.number, rest, multiple)] if rest else []
                raise TurnOver(*over.steps, *steps_after) from None
            if not channel.takes_methods and place < len(delivery_tags):
                self.on_ack(channel.number, delivery_tags[place:], multiple)
                return

    def _settle_acked(self) -> None:
        """Pass the collected acks to their queue.

        Consecutive acks of one read are passed as a run, at a third of the cost.
        """
        queue, self._acked_queue = self._acked_queue, None
        if queue is not None:
            acked, self._acked = self._acked, []
            self._turns.work_left -= len(acked)
            queue.ack(acked)

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """A frame that is neither part of a publish nor a basic.ack."""
        self._settle_acked()
        self._method_at_work, self._channel_at_work = 0, None
        state = self._closing.state
        if state is GONE or (
            self._pending.is_any
            and self._pending.keep(channel, len(payload), self.on_frame, kind, channel, payload)
        ):
            return
        if not is_known_frame(kind, payload):
            if state is not CLOSING:
                raise frame_error(f"type {kind}, {format_snippet(payload)}: unknown_frame")
        elif channel == 0:
            self._on_connection_frame(kind, payload)
        elif state is RUNNING:
            self._on_channel_frame(kind, channel, payload)
        elif state is HANDSHAKE:
            raise unexpected_frame(f"type {kind}, {format_snippet(payload)}")
        if kind == METHOD:
            self._turns.work_left -= METHOD_WORK + len(payload)
        else:
            self._turns.work_left -= FRAME_WORK
        if self._turns.work_left <= 0:
            raise TurnOver

    def _on_connection_frame(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            method = decode_method(payload)
            self._method_at_work = method.index
            self._connection.handle_method(method)
        elif kind != HEARTBEAT and self._closing.state is not CLOSING:
            raise unexpected_frame(f"type {kind}, {format_snippet(payload)}")

    def _on_channel_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == HEARTBEAT:
            raise unexpected_frame(f"type {kind}, {format_snippet(payload)}")
        channel = self._channels.get(number)
        if channel is not None and channel.assembler is not None:
            self._channel_at_work = channel
            self._assemble(channel, channel.assembler, kind, payload)
            return
        if kind != METHOD:
            if channel is not None and channel.is_closing:
                # The rest of a message whose publish closed the channel.
                return
            raise unexpected_frame("expected method frame, got non method frame instead")
        method = decode_method(payload)
        self._method_at_work = method.index
        if isinstance(method, commands.Channel.Open):
            self._open_channels.open(number)
        elif channel is None:
            self._open_channels.require(number, self._closing.state)
        elif channel.is_closing:
            self._open_channels.handle_on_closing(channel, method)
        elif isinstance(method, commands.Channel.Close):
            steps = self._open_channels.close(channel, self._pending.replies_sent(channel))
            self.run(channel, steps, lambda: "channel.close")
        elif isinstance(method, commands.Basic.Publish):
            channel.assembler = ContentAssembler(payload[METHOD_ID_BYTES:])
        else:
            self._channel_at_work = channel
            steps = dispatch.handle(channel, method)
            self.run(channel, steps, partial(dispatch.described, channel, method))

    def _assemble(
        self, channel: Channel, assembler: ContentAssembler, kind: int, payload: bytes
    ) -> None:
        """A content frame of a message that spans several frames."""
        self._method_at_work = BASIC_PUBLISH
        content = assembler.add(kind, payload)
        if kind == HEADER and not channel.is_closing:
            publishing.check_message_size(channel, assembler.body_bytes)
        if content is None:
            return
        channel.assembler = None
        body = content.body
        self.on_publish(channel.number, content.arguments, [content.properties], [body], len(body))
