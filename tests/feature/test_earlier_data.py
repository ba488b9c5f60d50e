"""A node opens the data directory of an earlier version, with everything that is in it."""

import queue
from collections import Counter

import paho.mqtt.client as paho
import pika
import pytest

from leveret.broker.config import Config, Listener, MqttSettings
from leveret.broker.plugins.own_plugins import MQTT
from tests.feature.earlier_data import (
    ANN,
    ARGUMENTS,
    COUNT,
    NODE,
    RETAINED,
    TOPIC,
    bodies,
    unpack,
)
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.stored_broker import started

MQTT_PORT = free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    directory = tmp_path_factory.mktemp("earlier")
    unpack(directory)
    listener = Listener("127.0.0.1", MQTT_PORT)
    config = Config(node_name=NODE, mqtt=MqttSettings(listeners=(listener,)), plugins=(MQTT,))
    broker = started(directory, config=config)
    yield broker
    broker.stop()


@pytest.fixture
def channel(broker):
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1000)
        yield channel


def taken(channel, name, count, **subscribing):
    """The messages that a consumer gets from a queue, and acknowledges."""
    found = []
    for method, _, body in channel.consume(
        name, inactivity_timeout=PATIENCE_SECONDS, **subscribing
    ):
        assert method is not None, f"{name} has no more messages than {len(found)}"
        channel.basic_ack(method.delivery_tag)
        found.append(body)
        if len(found) == count:
            channel.cancel()
            return found
    raise AssertionError(f"the consumer of {name} was cancelled")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_messages(channel, name):
    everything = bodies(0) + bodies(1)
    wanted = everything[2:] if name == "classic" else everything
    start = {"x-stream-offset": "first"} if name == "stream" else None
    found = taken(channel, name, len(wanted), arguments=start)
    # The node was killed: a settlement may be missing in its log, and one was a return.
    assert Counter(found) == Counter(wanted)
    if name in ("classic", "lazy", "stream"):
        assert found == wanted


def test_delayed_messages_whose_times_have_come(channel):
    found = taken(channel, "reminders", 2 * COUNT)
    assert Counter(found) == Counter({b"%d" % number: 2 for number in range(COUNT)})


def test_declarations(broker):
    parameters = pika.URLParameters(broker.url)
    parameters.virtual_host, parameters.credentials = "shop", ANN
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_declare("orders", passive=True)


def test_retained_messages(broker):
    received = queue.Queue()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "reader")
    client.username_pw_set("guest", "guest")
    client.on_message = lambda _client, _data, message: received.put(message)
    client.connect("127.0.0.1", MQTT_PORT)
    client.loop_start()
    client.subscribe(TOPIC)
    message = received.get(timeout=PATIENCE_SECONDS)
    client.disconnect()
    client.loop_stop()
    assert (message.topic, message.payload, message.retain) == (TOPIC, RETAINED, True)
