"""Messages of a protocol beside AMQP 0-9-1: its sessions get back what its clients sent, wherever
the message has been, and clients of AMQP 0-9-1 see the properties that it was converted to.
"""

import asyncio

import pika
import pytest

from leveret.broker.amqp.content_header import Form, make_header
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.declarations.requester import Requester
from leveret.broker.sessions.direct import DirectConnection
from tests.patience import PATIENCE_SECONDS
from tests.stored_broker import started

ANNA = Identity("anna", (), authorization=Unrestricted())
SENT = Form("toy", b"\x00unit\xff=kelvin")
CONVERTED = {"content_type": "text/plain", "headers": {"unit": ("S", "kelvin")}}


class ToyClient:
    """A client of a protocol that keeps the form of its messages."""

    def __init__(self, broker):
        self._broker = broker

    def _do(self, steps):
        """Run steps of a session in the broker's loop."""

        async def run(embedded):
            services = embedded.broker.services
            vhost = services.vhosts["/"]
            with DirectConnection(services, ANNA, vhost, "::1", Requester("anna")) as connection:
                return await steps(connection)

        loop = self._broker.call(lambda _: asyncio.get_running_loop())
        running = asyncio.run_coroutine_threadsafe(
            run(self._broker.call(lambda embedded: embedded)), loop
        )
        return running.result(PATIENCE_SECONDS)

    def publish(self, queue):
        """Publish a message, and wait until it is safe."""

        async def publish(connection):
            header = make_header({**CONVERTED, "delivery_mode": 2}, form=SENT)
            assert await connection.publish("", queue, header, b"300")
            assert await connection.confirmed()

        self._do(publish)

    def get(self, queue):
        """The next message; it is acknowledged."""

        async def get(connection):
            return (await connection.get(queue, no_ack=True)).message

        return self._do(get)

    def reject(self, queue, *, requeue):
        """Reject the next message."""

        async def reject(connection):
            got = await connection.get(queue)
            await connection.reject(got.delivery_tag, requeue=requeue)

        self._do(reject)


def connected(broker):
    return pika.BlockingConnection(pika.URLParameters(broker.url))


@pytest.fixture
def client(broker):
    return ToyClient(broker)


@pytest.fixture
def channel(broker):
    with connected(broker) as connection:
        yield connection.channel()


def test_a_client_of_amqp_0_9_1_sees_converted_properties(channel, client):
    channel.queue_declare("q")
    client.publish("q")
    _, properties, body = channel.basic_get("q")
    assert (properties.content_type, properties.headers) == ("text/plain", {"unit": "kelvin"})
    assert body == b"300"


def test_a_message_of_amqp_0_9_1_has_no_form_and_no_client_can_give_it_one(channel, client):
    channel.queue_declare("q")
    forged = {"x-leveret-form": ["toy", b"forged"], "unit": "kelvin"}
    channel.basic_publish("", "q", b"300", pika.BasicProperties(headers=forged))
    header = client.get("q").header
    assert header.form is None
    assert header.headers == {"unit": ("S", "kelvin")}


def test_the_form_comes_back_from_another_node(linked, channel, client):
    channel.queue_declare("q")
    client.publish("q")
    header = client.get("q").header
    assert (header.form, header.headers) == (SENT, CONVERTED["headers"])


def test_the_form_comes_back_after_a_restart(tmp_path):
    broker = started(tmp_path)
    with connected(broker) as connection:
        connection.channel().queue_declare("q", durable=True)
    ToyClient(broker).publish("q")
    ToyClient(broker).publish("q")
    broker.stop()
    broker = started(tmp_path)
    assert ToyClient(broker).get("q").header.form == SENT
    with connected(broker) as connection:
        _, properties, _ = connection.channel().basic_get("q")
    assert properties.headers == {"unit": "kelvin"}
    broker.stop()


def test_the_form_stays_when_the_broker_changes_headers(channel, client):
    channel.queue_declare("dead")
    channel.queue_declare(
        "q", durable=True,
        arguments={
            "x-queue-type": "quorum", "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )  # fmt: skip
    client.publish("q")
    client.reject("q", requeue=True)
    client.publish("q")
    client.reject("q", requeue=False)
    returned, dead = (client.get(queue).header for queue in ("q", "dead"))
    assert (returned.form, dead.form) == (SENT, SENT)
    assert "x-death" in dead.headers
