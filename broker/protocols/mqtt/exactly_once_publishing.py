"""Publishes the messages of QoS 2 of a client: each one once, even if its packets are repeated.

Messages are handed over in the order in which they came, one by one. If all queues of a message,
and that of the records, keep it in this node's log in the same form, it is one record of the log
with its RECEIVED (docs/design/mqtt-exactly-once.md). Otherwise RECEIVED is written first, and the
input waits for it; after a crash the message may be handed over again with the same identity, which
subscribers of QoS 2 recognise.

PUBREC comes when every queue has the message safely, in the order of the PUBLISH packets.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import NEEDS_CARE
from leveret.broker.protocols.mqtt import codes, packets
from leveret.broker.protocols.mqtt.exactly_once import (
    Effect,
    Fact,
    HandOver,
    Inbound,
    Record,
    SendPubcomp,
    SendPubrec,
)
from leveret.broker.protocols.mqtt.exactly_once_messages import TrackedPublish, tracked_header
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.properties import MalformedPacket
from leveret.broker.protocols.mqtt.record_queue import Records
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.pending import Answer, Steps
from leveret.broker.sessions import publishing
from leveret.broker.sessions.resolving import resolve
from leveret.broker.sessions.targets import PublishTarget
from leveret.broker.vhost.fan_out import QUEUES_AT_ONCE
from leveret.storage.messages.message import Message


class PublishingParts(Protocol):
    """The publisher of the connection (publisher.py)."""

    def leave_out_own(self, target: PublishTarget) -> None:
        """Remove the session's own queues from a target, if its filters say `no local`."""

    def retain(
        self, session: MqttSession, target: PublishTarget, message: Message, is_confirmed: bool
    ) -> None:
        """Keep a message that was just published for later subscribers."""


class ConfirmingSession(MqttSession):
    """A session beside that of the connection, whose confirms are PUBRECs."""

    def __init__(self, beside: MqttSession, number: int) -> None:
        super().__init__(beside.connection, number, beside.output, beside.topics)
        self.level, self.is_level_5 = beside.level, beside.is_level_5
        self.queue_names = beside.queue_names
        self.due: Callable[[], object] = _nothing

    def send_confirms_later(self) -> None:
        """Send PUBRECs at the end of the round."""
        self.vhost.turns.before_flush(self.due)


class _Wanted:
    """A message to hand over. header: with QoS 1."""

    __slots__ = ("body", "header", "identity", "packet_id", "retains", "target")

    def __init__(
        self,
        effect: HandOver,
        target: PublishTarget,
        header: ContentHeader,
        body: bytes,
        retains: bool,
    ) -> None:
        self.packet_id, self.identity = effect.packet_id, effect.identity
        self.target = target
        self.header = header
        self.body = body
        self.retains = retains


class _Answered:
    """A PUBLISH that is not answered yet. is_stored, is_refused: its outcome, once it is known.

    is_repeated: its message was stored before.
    """

    __slots__ = ("code", "is_refused", "is_repeated", "is_stored", "packet_id")

    def __init__(self, packet_id: int, is_repeated: bool) -> None:
        self.packet_id = packet_id
        self.code = codes.SUCCESS
        self.is_repeated = self.is_stored = is_repeated
        self.is_refused = False


class ExactlyOncePublisher:
    """The QoS 2 messages of one connection.

    session: the connection's. beside: another one, for the confirms. parts: the connection's
    publisher.
    """

    __slots__ = (
        "_answers", "_beside", "_by_number", "_inbound", "_is_closed", "_parts", "_records",
        "_session",
    )  # fmt: skip

    def __init__(
        self,
        session: MqttSession,
        beside: ConfirmingSession,
        records: Records,
        inbound: Inbound,
        parts: PublishingParts,
    ) -> None:
        self._session = session
        self._beside = beside
        self._records = records
        self._inbound = inbound
        self._parts = parts
        self._answers: deque[_Answered] = deque()
        self._by_number: dict[int, _Answered] = {}
        self._is_closed = False
        beside.begin_confirms()
        beside.due = self._confirms_due

    @property
    def under_way(self) -> int:
        """The messages that were sent no PUBCOMP, which the receive maximum limits."""
        return len(self._inbound)

    def check_known(self, packet_id: int, receive_max: int) -> None:
        """Raise MalformedPacket unless PUBLISH is a repetition: no more messages are allowed."""
        if packet_id not in self._inbound:
            raise MalformedPacket(
                f"more than {receive_max} PUBLISH packets have no answer yet",
                codes.RECEIVE_MAXIMUM_EXCEEDED,
            )

    # PUBLISH

    def publish(
        self,
        packet_id: int,
        target: PublishTarget,
        header: ContentHeader,
        body: bytes,
        retains: bool,
    ) -> Steps | None:
        """PUBLISH has come. header: the message's, as if it had QoS 1. Raises Fault.

        Returns None if it is handed over, or was; otherwise steps that do it.
        """
        now_us = int(self._session.services.clock.wall_time_s() * 1e6)
        for effect in self._inbound.published(packet_id, now_us):
            if isinstance(effect, HandOver):
                message = _Wanted(effect, target, header, body, retains)
                if target.generation != self._session.vhost.generation:
                    steps = resolve(self._session, target)
                    if steps is not None:
                        return self._resolve_and_hand_over(steps, message)
                    self._parts.leave_out_own(target)
                return self._hand_over(message)
            if isinstance(effect, SendPubrec):
                self._answer_repeated(packet_id)
        return None

    async def _resolve_and_hand_over(self, steps: Steps, wanted: "_Wanted") -> None:
        await steps
        self._parts.leave_out_own(wanted.target)
        rest = self._hand_over(wanted)
        if rest is not None:
            await rest

    def _hand_over(self, wanted: "_Wanted") -> Steps | None:
        target, records = wanted.target, self._records.queue
        if records is None:
            return self._publish(wanted, target, False)
        queues = [*target.queues, records]
        is_plain = target.is_simple and wanted.header.kind < NEEDS_CARE
        if not (is_plain and not wanted.header.expires and _are_in_one_log(queues)):
            return self._hand_over_in_two_steps(wanted)
        both = PublishTarget(target.address, False)
        both.exchange, both.generation, both.is_simple = target.exchange, target.generation, True
        both.queues, both.work = queues, target.work + 1
        self._records.wrote_with_message(wanted.identity)
        return self._publish(wanted, both, False)

    async def _hand_over_in_two_steps(self, wanted: "_Wanted") -> None:
        written: Answer[None] = Answer()
        record = Record(Fact.RECEIVED, wanted.packet_id, wanted.identity, True)
        self._records.write(record, lambda: written.give(None))
        await written
        rest = self._publish(wanted, wanted.target, True)
        if rest is not None:
            await rest

    def _publish(
        self, wanted: "_Wanted", target: PublishTarget, is_repeatable: bool
    ) -> Steps | None:
        """Publish a message to the queues of a target."""
        # Finding it takes time in proportion to the packet identifiers in use.
        oldest_number = self._inbound.oldest_number if is_repeatable else 0
        tracked = TrackedPublish(wanted.packet_id, wanted.identity, oldest_number, is_repeatable)
        header = tracked_header(wanted.header, tracked)
        message = Message(target.address, header, wanted.body)
        answered = _Answered(wanted.packet_id, False)
        self._answers.append(answered)
        confirms = self._beside.confirms
        assert confirms is not None, "the session beside confirms"
        self._by_number[confirms.published + 1] = answered
        steps = publishing.publish(self._beside, target, Publication([message], len(message.body)))
        if steps is not None:
            return self._publish_later(steps, wanted)
        self._published(wanted)
        return None

    async def _publish_later(self, steps: Steps, wanted: "_Wanted") -> None:
        await steps
        self._published(wanted)

    def _published(self, wanted: "_Wanted") -> None:
        target = wanted.target
        if target.is_simple and not target.queues and self._session.is_level_5:
            self._answers[-1].code = codes.NO_MATCHING_SUBSCRIBERS
        if wanted.retains:
            message = Message(target.address, wanted.header, wanted.body)
            self._parts.retain(self._beside, target, message, True)

    # PUBREC

    def _answer_repeated(self, packet_id: int) -> None:
        """PUBREC for a message that is stored, after those of the messages before it."""
        self._answers.append(_Answered(packet_id, True))
        self._answer()

    def _confirms_due(self) -> None:
        """Queues have stored messages, or refused them."""
        if self._is_closed:
            return
        for is_ack, number, is_multiple in self._beside.take_confirms():
            numbers = [number]
            if is_multiple:
                numbers = [one for one in self._by_number if one <= number]
            for one in numbers:
                answered = self._by_number.pop(one)
                answered.is_stored, answered.is_refused = is_ack, not is_ack
        self._answer()

    def _answer(self) -> None:
        answers = self._answers
        while answers and (answers[0].is_stored or answers[0].is_refused):
            answered = answers.popleft()
            packet_id = answered.packet_id
            if answered.is_repeated:
                self._do([SendPubrec(packet_id)])
            elif answered.is_stored:
                self._do(self._inbound.stored(packet_id), answered.code)
            else:
                self._do(self._inbound.refused(packet_id))

    def refuse(self, packet_id: int) -> None:
        """PUBLISH has come while an alarm has lasted too long."""
        self._do([SendPubrec(packet_id, True)])

    # PUBREL

    def release(self, packet_id: int) -> None:
        """PUBREL has come."""
        self._do(self._inbound.released(packet_id))

    def _do(self, effects: list[Effect], code: int = codes.SUCCESS) -> None:
        """Do the effects of the machine. code: of PUBREC."""
        level, output = self._session.level, self._session.output
        for effect in effects:
            if isinstance(effect, Record):
                self._records.write(effect, partial(self._forgotten, effect))
            elif isinstance(effect, SendPubrec):
                if effect.is_refused and level != codes.LEVEL_5:
                    # There is no code for it: the client repeats PUBLISH when it is back.
                    continue
                code = codes.IMPLEMENTATION_SPECIFIC_ERROR if effect.is_refused else code
                output.write(packets.acknowledgement(level, codes.PUBREC, effect.packet_id, code))
            elif isinstance(effect, SendPubcomp):
                code = codes.SUCCESS if effect.is_known else codes.PACKET_IDENTIFIER_NOT_FOUND
                output.write(packets.acknowledgement(level, codes.PUBCOMP, effect.packet_id, code))

    def _forgotten(self, record: Record) -> None:
        """FORGOTTEN is on disk."""
        if not self._is_closed:
            self._do(self._inbound.forgotten(record.packet_id))
            self._records.forget(record.identity)

    def close(self) -> None:
        """The connection ends."""
        self._is_closed = True
        self._answers.clear()
        self._by_number.clear()
        self._records.close()
        self._beside.due = _nothing
        self._beside.release()


def _are_in_one_log(queues: list[QueueClient]) -> bool:
    """Whether a message is one record in the log for all of these queues."""
    return len(queues) <= QUEUES_AT_ONCE and all(
        isinstance(queue, ClassicQueue) and queue.durable and queue.is_plain for queue in queues
    )


def _nothing() -> None:
    """No confirms are waited for."""
