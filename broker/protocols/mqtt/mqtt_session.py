"""The session of an MQTT client: what it shares with its publisher and its consumers."""

from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.mqtt.codes import LEVEL_5
from leveret.broker.protocols.mqtt.exactly_once import FIRST_SENT_ID
from leveret.broker.protocols.mqtt.names import queue_names, session_queues
from leveret.broker.protocols.mqtt.subscriptions import Subscriptions
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.storage.messages.message import Message

PACKET_ID_MAX = 65_535
COUNTED_AS: Final = {3: "mqtt310", 4: "mqtt311", 5: "mqtt50"}
"""The names of the protocol in metrics, by its level."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MqttSession(Session):
    """A session of a connection. Its deliveries are recorded by their packet identifiers.

    level: 3, 4 or 5. packet_bytes_max: the largest packet for the client; 0 for no limit.
    queue_names: the queues for QoS 0, QoS 1 and, if enabled, QoS 2. all_queue_names: also those for
    records, whether they exist or not. exactly_once: handles QoS 2 (exactly_once_session.py); None
    if it is not enabled. packet_id_max: the highest identifier for deliveries of QoS 1.
    receive_max: the number of deliveries above QoS 0 that the client may leave unanswered.
    retained: sends retained messages (retained.py); None until there are some.
    """

    __slots__ = (
        "_last_packet_id", "_room", "all_queue_names", "exactly_once", "is_level_5", "level",
        "output", "packet_bytes_max", "packet_id_max", "queue_names", "receive_max", "retained",
        "subscriptions", "topics",
    )  # fmt: skip

    def __init__(
        self, connection: SessionConnection, number: int, output: SocketOutput, topics: Topics
    ) -> None:
        super().__init__(connection, number)
        self.output = output
        self.topics = topics
        self.level = 0
        self.is_level_5 = False
        self.packet_bytes_max = 0
        self.queue_names: tuple[str, ...] = ("", "")
        self.all_queue_names: tuple[str, ...] = ()
        self.exactly_once: Any = None
        self.packet_id_max: i64 = PACKET_ID_MAX
        self.receive_max = PACKET_ID_MAX
        self.retained: Any = None
        self.subscriptions = Subscriptions()
        self._last_packet_id: i64 = 0
        self._room: Answer[None] | None = None

    def describe(self, client_id: str, level: int) -> None:
        """A text that names the session's client."""
        self.level = level
        self.is_level_5 = level == LEVEL_5
        self.queue_names = queue_names(client_id)
        self.all_queue_names = session_queues(client_id)

    def add_exactly_once(self, exactly_once: Any, queue_name: str) -> None:
        """Enable QoS 2. queue_name: the name of the queue for its filters of QoS 2."""
        self.exactly_once = exactly_once
        self.queue_names = (*self.queue_names, queue_name)
        self.packet_id_max = FIRST_SENT_ID - 1

    def next_packet_id(self) -> int:
        """A packet identifier that no delivery has."""
        records = self.unacked.records
        retained = self.retained
        packet_id: i64 = self._last_packet_id
        while True:
            packet_id = packet_id + 1 if packet_id < self.packet_id_max else 1
            if packet_id not in records and (retained is None or packet_id not in retained.ids):
                self._last_packet_id = packet_id
                return int(packet_id)

    def room(self) -> Answer[None] | None:
        """Given when the client has read the messages sent to it; None if it keeps up."""
        if not self.output.is_congested:
            return None
        if self._room is None:
            self._room = Answer()
        return self._room

    def caught_up(self) -> None:
        """The client keeps up again: continue its deliveries."""
        room, self._room = self._room, None
        if room is not None:
            room.give(None)
        self.continue_deliveries()

    def continue_deliveries(self) -> None:
        """There is room again: let queues deliver to the consumers that have waited for it."""
        for consumer in tuple(self.consumers.values()):
            if consumer.is_waiting:
                consumer.queue.credit(consumer)

    @property
    def is_shown_as_channel(self) -> bool:
        """Management shows the connection alone."""
        return False

    @property
    def counted_as(self) -> str:
        """RabbitMQ's name of the protocol for which metrics count the messages."""
        return COUNTED_AS[self.level]

    # Notifying the client

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Do nothing: no message is mandatory."""

    def send_confirms_later(self) -> None:
        """Send PUBACKs at the end of the round."""
        self.output.flush_later()

    def report_closed(self, consumer_count: int) -> None:
        """Do nothing: events of channels are for those of AMQP 0-9-1."""
