"""A client's PUBLISH packets: runs of messages to one topic, and their PUBACKs. Compiled.

A publisher uses the same topics again and again, so its last topic is compared as bytes, and the
routes of others are looked up by their bytes (broker/sessions/targets.py). Consecutive messages to
one topic, with the same properties, are a run, which is published in one call.

QoS 1 is a publisher confirm: PUBACK is sent when all queues have the message safely. PUBACKs have
the order of the PUBLISH packets, as the standard demands, and those of a round are one write.

QoS 2 of MQTT 3.1.1 is treated as QoS 1, and refused in 5.0, as in RabbitMQ, unless the session has
`exactly_once`.
"""

from collections import deque
from functools import partial
from typing import Final, Protocol

from librt.strings import BytesWriter, write_i16_be
from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.properties import NEEDS_CARE
from leveret.broker.net.reading import MANY_BYTES, MANY_MESSAGES, Reading
from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.messages import QOS_0, QOS_1, make_header_of
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.properties import (
    TOPIC_ALIAS,
    MalformedPacket,
    Properties,
    decode_properties,
    read_variable,
)
from leveret.broker.protocols.mqtt.topics import ROUTING_KEY_BYTES_MAX
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.retained.retained_messages import RetainedLimitReached
from leveret.broker.runtime.pending import Answer, Steps, given
from leveret.broker.services.services import Services
from leveret.broker.sessions import publishing
from leveret.broker.sessions.resolving import resolve
from leveret.broker.sessions.targets import RUN_WORK, PublishTarget
from leveret.storage.messages.message import Address, Message
from leveret.storage.retained.retained_file import RetainedFileError

PROPERTIES_KEPT: Final = 64
UNLIMITED: Final = 1 << 62
WAITING: Final = -1
"""The code of a PUBLISH that is not confirmed yet."""
NO_ANSWER: Final = 0
"""Stands for the packet identifier of a PUBLISH that gets no PUBACK."""
_WRITER: Final = BytesWriter()


class RunsOperations(Protocol):
    """The input of the connection."""

    def run(self, steps: Steps) -> None:
        """Run the steps of an operation; input waits until they have ended."""


class Published:
    """The properties of a PUBLISH. alias: 0 for none. header: that of the last QoS and flag."""

    __slots__ = ("alias", "header", "key", "properties")

    def __init__(self, properties: Properties) -> None:
        self.properties = properties
        self.alias: int = properties.get(TOPIC_ALIAS, 0)
        self.header: ContentHeader | None = None
        self.key = -1


class MqttPublisher:
    """The publishes of one connection. has_run: there are messages that are not published yet."""

    __slots__ = (
        "_alias_max", "_aliases", "_answers", "_body_bytes", "_first_answer", "_flow", "_head",
        "_ids", "_input", "_known", "_messages", "_qos", "_reading", "_receive_max", "_retains",
        "_run_header", "_run_max", "_session", "_target", "_targets", "_turns", "_unanswered",
        "exchange",
    )  # fmt: skip

    def __init__(self, session: MqttSession, reading: Reading, runs: RunsOperations) -> None:
        services = session.services
        settings = services.config.mqtt
        self._session = session
        self._reading = reading
        self._input = runs
        self._targets = session.connection.targets
        self._turns = session.vhost.turns
        self._flow = services.flow
        self._alias_max = settings.topic_alias_maximum
        self.exchange = settings.exchange
        self._head = b""
        """The topic of the run with its length before it, as in the packets."""
        self._target: PublishTarget | None = None
        self._run_header: ContentHeader = QOS_0
        self._qos: i64 = 0
        self._retains = False
        self._run_max: i64 = 0
        self._messages: list[Message] = []
        self._ids: list[int] = []
        self._body_bytes: i64 = 0
        self._aliases: dict[int, bytes] | None = None
        self._known: dict[bytes, Published] | None = None
        self._answers: deque[tuple[int, int]] | None = None
        """Packet identifier and code of each PUBLISH that is not answered, in order."""
        self._first_answer = 1
        self._receive_max: i64 = settings.receive_maximum if session.is_level_5 else UNLIMITED
        self._unanswered: i64 = 0
        """The PUBLISH packets that are to get a PUBACK, and were sent none."""

    # Packets

    def add(self, data: bytes, begin: i64, end: i64, first: i64) -> bool:
        """Take a PUBLISH. Returns False if it has to be given again later. Raises MalformedPacket.

        data, begin, end, first: see `PacketInput`.
        """
        qos: i64 = first >> 1 & 3
        if qos and (qos > 1 or self._unanswered >= self._receive_max):
            if qos == 2 and self._session.exactly_once is not None:
                return self._add_exactly_once(data, begin, end, first)
            self._check_qos(qos)
            qos = 1
        session = self._session
        head = self._head
        size: i64 = len(head)
        position: i64 = begin + size
        is_same_topic = size > 2 and position <= end and data.startswith(head, begin)
        if not is_same_topic:
            position = _topic_end(data, begin, end)
        topic_end = position
        packet_id = 0
        if qos:
            if position + 2 > end:
                raise MalformedPacket("PUBLISH ends too early")
            packet_id = int(data[position] << 8 | data[position + 1])
            position += 2
        header: ContentHeader = QOS_1 if qos else QOS_0
        published: Published | None = None
        if session.is_level_5:
            if position >= end:
                raise MalformedPacket("PUBLISH ends too early")
            if data[position]:
                published, position = self._read_properties(data, position, end)
            else:
                position += 1
        retains = first & 1 != 0
        if published is not None or retains:
            header = self._header_of(published, qos, retains)
        topic: bytes | None = None
        if published is not None and published.alias:
            topic = self._by_alias(data[begin + 2 : topic_end], published.alias)
            is_same_topic = False
        ends_run = self._messages and (
            not is_same_topic
            or header is not self._run_header
            or len(self._messages) >= self._run_max
            or retains
        )
        if ends_run and (not self.flush() or self._turns.work_left <= 0):
            return False
        if not self._messages:
            if not is_same_topic:
                self._head = data[begin:topic_end] if topic is None else b""
                self._target = self._find_target(topic or data[begin + 2 : topic_end])
            self._begin_run(header, qos, retains)
        target = self._target
        assert target is not None, "a run has a target"
        self._messages.append(Message(target.address, header, data[position:end]))
        self._body_bytes += end - position
        if qos:
            self._ids.append(packet_id)
            self._unanswered += 1
        return True

    def _add_exactly_once(self, data: bytes, begin: i64, end: i64, first: i64) -> bool:
        """Take a PUBLISH of QoS 2, which is never part of a run. Returns the same as `add`."""
        session = self._session
        exactly_once = session.exactly_once
        assert exactly_once is not None, "the session has QoS 2"
        if not self.flush() or self._turns.work_left <= 0:
            return False
        position: i64 = _topic_end(data, begin, end)
        topic = data[begin + 2 : position]
        if position + 2 > end:
            raise MalformedPacket("PUBLISH ends too early")
        packet_id = data[position] << 8 | data[position + 1]
        position += 2
        published: Published | None = None
        if session.is_level_5:
            published, position = self._read_properties(data, position, end)
            if published.alias:
                topic = self._by_alias(topic, published.alias)
        must_refuse = self._flow.is_held and self._reading.hold_back(True)
        if self._flow.is_held and self._reading.is_blocked and not must_refuse:
            return False
        publisher = exactly_once.publisher
        if publisher is None:
            self._input.run(exactly_once.open_publisher(self))
            return False
        if must_refuse:
            publisher.refuse(packet_id)
            return True
        if self._unanswered + publisher.under_way >= self._receive_max:
            publisher.check_known(packet_id, int(self._receive_max))
        retains = first & 1 != 0
        header = self._header_of(published, 1, retains) if published or retains else QOS_1
        target = self._find_target(topic)
        self._turns.work_left -= RUN_WORK + target.work
        steps = publisher.publish(packet_id, target, header, data[position:end], retains)
        if steps is not None:
            self._input.run(steps)
        return True

    def _begin_run(self, header: ContentHeader, qos: i64, retains: bool) -> None:
        target = self._target
        assert target is not None, "a run has a target"
        self._run_header = header
        self._qos = qos
        self._retains = retains
        is_alone = retains or header.kind >= NEEDS_CARE
        self._run_max = 1 if is_alone else max(1, self._turns.affordable(target.work))

    def _check_qos(self, qos: i64) -> None:
        if qos == 3:
            raise MalformedPacket("PUBLISH has QoS 3")
        if qos == 2 and self._session.is_level_5:
            raise MalformedPacket("PUBLISH has QoS 2", codes.QOS_NOT_SUPPORTED)
        if self._unanswered >= self._receive_max:
            raise MalformedPacket(
                f"more than {self._receive_max} PUBLISH packets have no answer yet",
                codes.RECEIVE_MAXIMUM_EXCEEDED,
            )

    def _read_properties(self, data: bytes, position: i64, end: i64) -> tuple[Published, int]:
        """The properties of a packet; those that were seen last are not decoded again."""
        size, start = read_variable(data, int(position))
        properties_end = start + size
        if properties_end > end:
            raise MalformedPacket("PUBLISH ends too early")
        raw = data[start:properties_end]
        known = self._known
        if known is None:
            known = self._known = {}
        published = known.get(raw)
        if published is None:
            published = Published(decode_properties(raw, 0, size))
            if len(known) >= PROPERTIES_KEPT:
                known.clear()
            known[raw] = published
        return published, properties_end

    def _header_of(self, published: Published | None, qos: i64, retains: bool) -> ContentHeader:
        topics = self._session.topics
        if published is None:
            return make_header_of({}, int(qos), retains, topics)
        key = int(qos) << 1 | retains
        header = published.header
        if header is None or published.key != key:
            header = make_header_of(published.properties, int(qos), retains, topics)
            published.header, published.key = header, key
        return header

    def _by_alias(self, topic: bytes, alias: int) -> bytes:
        """The topic of a packet with a topic alias. Raises MalformedPacket."""
        if not 0 < alias <= self._alias_max:
            raise MalformedPacket(f"topic alias {alias} is too high", codes.TOPIC_ALIAS_INVALID)
        aliases = self._aliases
        if aliases is None:
            aliases = self._aliases = {}
        if topic:
            aliases[alias] = topic
            return topic
        if alias not in aliases:
            raise MalformedPacket(f"topic alias {alias} is not known", codes.PROTOCOL_ERROR)
        return aliases[alias]

    def _find_target(self, topic: bytes) -> PublishTarget:
        target = self._targets.find(topic)
        if target is None:
            exchange = self.exchange
            key = self._session.topics.routing_key(topic)
            if len(topic) > ROUTING_KEY_BYTES_MAX and len(key.encode()) > ROUTING_KEY_BYTES_MAX:
                raise MalformedPacket(
                    f"a topic has {len(topic)} bytes; there may be {ROUTING_KEY_BYTES_MAX}",
                    codes.TOPIC_NAME_INVALID,
                )
            encoded = encode_short_string(exchange) + encode_short_string(key)
            target = PublishTarget(Address(exchange, key, encoded), False)
            self._targets.add(topic, target)
        return target

    # Runs

    @property
    def has_run(self) -> bool:
        """Whether there are messages that are not published yet."""
        return bool(self._messages)

    def flush(self) -> bool:
        """Publish the run; returns False if later input has to wait. Raises Fault."""
        messages = self._messages
        count = len(messages)
        if not count:
            return True
        if self._flow.is_held:
            if self._reading.hold_back(self._run_header.is_persistent):
                self._refuse()
                return True
            if self._reading.is_blocked:
                return False
        target = self._target
        assert target is not None, "a run has a target"
        publication = Publication(messages, int(self._body_bytes))
        ids = self._ids
        self._messages, self._ids, self._body_bytes = [], [], 0
        self._turns.work_left -= RUN_WORK + target.work * count
        session = self._session
        if self._qos and session.confirms is None:
            session.begin_confirms()
            self._answers = deque()
        answers = self._answers
        if answers is not None:
            for packet_id in ids or [NO_ANSWER] * count:
                answers.append((packet_id, WAITING))
        steps = self._publish(target, publication)
        if steps is not None:
            self._input.run(self._publish_later(steps, target, publication, self._retains))
            return False
        self._published(target, publication, self._retains)
        if count >= MANY_MESSAGES or publication.body_bytes >= MANY_BYTES:
            self._reading.hold_back_for(target.queues)
        return True

    def _publish(self, target: PublishTarget, publication: Publication) -> Steps | None:
        session = self._session
        if session.subscriptions.no_local_count and target.generation != session.vhost.generation:
            steps = resolve(session, target)
            if steps is not None:
                return self._resolve_and_publish(steps, target, publication)
            self.leave_out_own(target)
        return publishing.publish(session, target, publication)

    async def _resolve_and_publish(
        self, steps: Steps, target: PublishTarget, publication: Publication
    ) -> None:
        await steps
        self.leave_out_own(target)
        rest = publishing.publish(self._session, target, publication)
        if rest is not None:
            await rest

    def leave_out_own(self, target: PublishTarget) -> None:
        """Do not publish to the session's own queues if its filters say `no local`."""
        session = self._session
        key, subscriptions = target.address.routing_key, session.subscriptions
        refusing = [
            name
            for qos, name in enumerate(session.queue_names)
            if subscriptions.refuses_local(key, qos)
        ]
        if refusing:
            target.queues = [queue for queue in target.queues if queue.name not in refusing]

    async def _publish_later(
        self, steps: Steps, target: PublishTarget, publication: Publication, retains: bool
    ) -> None:
        await steps
        self._published(target, publication, retains)

    def _published(self, target: PublishTarget, publication: Publication, retains: bool) -> None:
        """The queues have the messages of a run, or will have them."""
        session = self._session
        if session.is_level_5 and target.is_simple and not target.queues:
            self._set_codes(len(publication.messages), codes.NO_MATCHING_SUBSCRIBERS)
        if retains:
            self.retain(session, target, publication.messages[0], self._qos > 0)

    def _set_codes(self, count: int, code: int) -> None:
        """Set the code of the last PUBLISH packets."""
        answers = self._answers
        if answers is None:
            return
        for place in range(len(answers) - count, len(answers)):
            if place >= 0 and answers[place][1] == WAITING:
                answers[place] = (answers[place][0], -code)

    def retain(
        self, session: MqttSession, target: PublishTarget, message: Message, is_confirmed: bool
    ) -> None:
        """Keep a message that a session has just published; its confirm waits for the disk."""
        topic = session.topics.topic(target.address.routing_key)
        answer = retain(session.services, session.vhost.name, topic, message)
        room = session.services.retained.room()
        if room is not None:
            # The disk is slower than the clients.
            self._input.run(_until(room))
        confirms = session.confirms
        if answer.is_given or confirms is None or not is_confirmed:
            return
        number = confirms.published
        confirms.hold(number, 1, answer)
        answer.when_given(partial(_confirm, session, number, answer))

    def _refuse(self) -> None:
        """Refuse a run, because an alarm has lasted too long."""
        session = self._session
        count = len(self._messages)
        ids = self._ids
        self._messages, self._ids, self._body_bytes = [], [], 0
        if self._answers is None or session.confirms is None:
            if not ids:
                return
            session.begin_confirms()
            self._answers = deque()
        for packet_id in ids or [NO_ANSWER] * count:
            self._answers.append((packet_id, WAITING))
        publishing.refuse(session, count, self._session.services.alarms.reason)

    # PUBACKs

    def send_answers(self) -> None:
        """Append the PUBACKs that are due to the output."""
        session = self._session
        answers = self._answers
        if answers is None or not session.has_confirms_due:
            return
        first = self._first_answer
        for is_ack, number, is_multiple in session.take_confirms():
            code = codes.SUCCESS if is_ack else codes.IMPLEMENTATION_SPECIFIC_ERROR
            start = 0 if is_multiple else number - first
            for place in range(max(0, start), number - first + 1):
                packet_id, known = answers[place]
                if known <= WAITING:
                    code_of = -known if is_ack and known < WAITING else code
                    answers[place] = (packet_id, code_of)
        self._send_settled(answers, session.is_level_5)

    def _send_settled(self, answers: deque[tuple[int, int]], is_level_5: bool) -> None:
        """Send the answers up to the first that is not known."""
        writer = _WRITER
        writer.truncate(0)
        count = 0
        while answers:
            packet_id, code = answers[0]
            if code <= WAITING:
                break
            answers.popleft()
            count += 1
            if packet_id == NO_ANSWER:
                continue
            self._unanswered -= 1
            signed = packet_id if packet_id < 32768 else packet_id - 65536
            if is_level_5:
                writer.append(0x40)
                writer.append(3)
                write_i16_be(writer, signed)
                writer.append(code)
            elif code < codes.UNSPECIFIED_ERROR:
                writer.append(0x40)
                writer.append(2)
                write_i16_be(writer, signed)
        self._first_answer += count
        if len(writer):
            output = self._session.output
            output.pieces.append(writer.getvalue())

    def close(self) -> None:
        """The connection ends: drop what is not published."""
        self._messages, self._ids = [], []
        self._answers = None
        self._target = None


def _topic_end(data: bytes, begin: i64, end: i64) -> i64:
    """Where the topic of a packet ends. Raises MalformedPacket."""
    if begin + 2 > end:
        raise MalformedPacket("PUBLISH ends too early")
    position: i64 = begin + 2 + (data[begin] << 8 | data[begin + 1])
    if position > end:
        raise MalformedPacket("PUBLISH ends too early")
    return position


def retain(services: Services, vhost: str, topic: str, message: Message) -> Answer[None]:
    """Keep a message for later subscribers; one without a payload removes the one that is kept.

    No filter matches the empty topic, which stands for all topics when messages are removed.
    """
    if not topic:
        return given(None)
    retained = services.retained
    if not message.body:
        return retained.remove(vhost, topic)
    header = message.header
    assert isinstance(header, ContentHeader)
    form = header.form
    expires_at_ms = 0
    if header.expires:
        ttl_ms = int(header.properties["expiration"])
        expires_at_ms = int(services.clock.wall_time_s() * 1000) + ttl_ms
    properties = b"" if form is None else form.data[1:]
    qos = 1 if header.is_persistent else 0
    return retained.put(vhost, topic, RetainedMessage(message.body, qos, properties, expires_at_ms))


async def _until(answer: Answer[None]) -> None:
    """Wait for an answer."""
    await answer


def _confirm(session: MqttSession, number: int, answer: Answer[None]) -> None:
    """Confirm a retained message, or refuse it."""
    confirms = session.confirms
    if confirms is None:
        return
    try:
        answer.result()
    except (RetainedLimitReached, RetainedFileError):
        confirms.holder_died(answer, False)
    else:
        confirms.confirm(number, answer)
