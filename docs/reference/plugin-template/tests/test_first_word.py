"""The plugin in a broker that runs in the test."""

import pika
import pytest

from leveret.broker.config import Config
from leveret.testing import EmbeddedBroker


@pytest.fixture
def channel():
    with (
        EmbeddedBroker.in_thread(config=Config(plugins=("first_word",))) as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        yield connection.channel()


def test_the_first_word_decides(channel):
    channel.exchange_declare("words", "x-first-word")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "words", "red")
    channel.confirm_delivery()
    channel.basic_publish("words", "red car", b"1", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("words", "blue car", b"2", mandatory=True)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"1"
