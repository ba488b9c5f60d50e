"""A protocol of its own on sessions: it knows no frames, no channels and no methods of AMQP."""

from collections import deque

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.runtime.pending_in_task import finish
from leveret.broker.sessions import consuming, declaring_queues, publishing, settling
from leveret.broker.sessions.consuming import ConsumerProperties
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.storage.messages.message import Message
from tests.patience import until


class OneSession(Session):
    """The only session of its connection. told: what the client is sent, in order."""

    def __init__(self, connection):
        super().__init__(connection, 1)
        self.told = deque()

    def send_returned(self, messages, code, text):
        self.told += [("returned", message.body) for message in messages]

    def send_confirms_later(self):
        self.services.turns.after_round(self._send_confirms)

    def _send_confirms(self):
        for is_ack, number, _ in self.take_confirms():
            self.told.append(("confirmed" if is_ack else "refused", number))

    async def publish(self, exchange, routing_key, body, *, is_mandatory=False):
        target = self.connection.targets.find_by_address(exchange, routing_key, is_mandatory)
        message = Message(target.address, header_with(delivery_mode=2), body)
        steps = publishing.publish(self, target, Publication([message], len(body)))
        if steps is not None:
            await finish(steps)

    async def subscribe(self, queue, make=None):
        """Consume with a limit of one unsettled message."""
        consuming.limit_unsettled(self, 1, for_all=False)
        properties = ConsumerProperties("", {})
        make = make or (lambda queue, properties: Subscription(self, queue, properties))
        await finish(consuming.consume(self, queue, properties, make=make, tell=lambda tag: None))
        (consumer,) = self.consumers.values()
        return consumer


class Subscription(SessionConsumer):
    """Tells the session of each message, with the number by which the client settles it."""

    def __init__(self, session, queue, properties):
        tag, arguments, no_ack, is_exclusive = properties
        super().__init__(session, queue, tag, no_ack, is_exclusive, arguments)

    def deliver(self, entries):
        first = self.session.record_delivered(self.queue, entries, self)
        for tag, entry in enumerate(entries, first):
            self.session.told.append(("message", tag, entry.message.body))
        self.note_delivered(entries, first)

    def tell_cancelled(self):
        self.session.told.append(("cancelled", self.tag))


class Link(Subscription):
    """Gets as many messages as the client has granted; settling one grants no other."""

    def __init__(self, session, queue, properties):
        super().__init__(session, queue, properties)
        self.credit = 0

    def settled(self):
        pass

    def grant(self, count):
        self.credit += count
        self.queue.credit(self)


@pytest.fixture
def connection(embedded):
    services = embedded.broker.services
    connection = SessionConnection(services)
    connection.user = Identity("anna", (), authorization=Unrestricted())
    connection.vhost = services.vhosts["/"]
    connection.requester = Requester("anna")
    return connection


@pytest.fixture
async def session(connection):
    session = OneSession(connection)
    await finish(declaring_queues.declare_queue(session, "q", QueueProperties({}, durable=True)))
    yield session
    session.release()


async def test_published_messages_are_confirmed(session):
    session.begin_confirms()
    await session.publish("", "q", b"first")
    await until(lambda: session.told)
    assert session.told.popleft() == ("confirmed", 1)


async def test_what_reaches_no_queue_is_returned(session):
    await session.publish("", "nowhere", b"lost", is_mandatory=True)
    assert session.told.popleft() == ("returned", b"lost")


async def test_settling_makes_room_for_the_next_message(session):
    await session.publish("", "q", b"first")
    await session.publish("", "q", b"second")
    await session.subscribe("q")
    await until(lambda: session.told)
    assert list(session.told) == [("message", 1, b"first")]
    settling.ack(session, 1, multiple=False)
    await until(lambda: len(session.told) == 2)
    assert session.told.pop() == ("message", 2, b"second")
    with pytest.raises(ChannelFault, match="unknown delivery tag 1"):
        settling.ack(session, 1, multiple=False)


async def test_a_consumer_may_be_given_credit_by_its_client(session):
    for body in (b"first", b"second", b"third"):
        await session.publish("", "q", body)
    link = await session.subscribe("q", lambda queue, properties: Link(session, queue, properties))
    assert not session.told
    link.grant(2)
    await until(lambda: len(session.told) == 2)
    settling.ack(session, 2, multiple=True)
    link.grant(1)
    await until(lambda: len(session.told) == 3)
    assert session.told.pop() == ("message", 3, b"third")


async def test_what_a_session_holds_goes_back_when_it_ends(session, connection):
    await session.publish("", "q", b"first")
    await session.subscribe("q")
    await until(lambda: session.told)
    session.release()
    later = OneSession(connection)
    await later.subscribe("q")
    await until(lambda: later.told)
    assert later.told.popleft() == ("message", 1, b"first")
    later.release()


async def test_a_consumer_is_told_that_its_queue_is_deleted(session):
    consumer = await session.subscribe("q")
    await finish(
        declaring_queues.delete_queue(session, "q", if_unused=False, if_empty=False, tell=None)
    )
    await until(lambda: session.told)
    assert session.told.popleft() == ("cancelled", consumer.tag)
