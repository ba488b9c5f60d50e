"""A kind of queues of an installed package, chosen by `x-queue-type`."""

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from leveret.broker.queues.contract.queue_kinds import INSTALLED
from leveret.testing import EmbeddedBroker
from tests.installed_package import install_in

SOURCE = """
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC_ARGUMENTS, QueueKind
from tests.later_queue import LaterQueue

MAILBOX = QueueKind("mailbox", "mailbox_queue", CLASSIC_ARGUMENTS, may_be_transient=False)


class Mailbox(LaterQueue):
    kind = MAILBOX


def mailboxes():
    return QueueFactory(MAILBOX, Mailbox)
"""
IS_MAILBOX = {"x-queue-type": "mailbox"}


@pytest.fixture
def channel():
    with (
        EmbeddedBroker.in_thread() as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        yield connection.channel()


def test_a_client_declares_publishes_and_gets(monkeypatch, tmp_path, channel):
    install_in(monkeypatch, tmp_path, [INSTALLED], "mailbox", SOURCE, "mailboxes")
    channel.queue_declare("m", durable=True, arguments=IS_MAILBOX)
    channel.confirm_delivery()
    channel.basic_publish("", "m", b"hello")
    assert channel.basic_get("m", auto_ack=True)[2] == b"hello"


def test_its_rules_are_checked(monkeypatch, tmp_path, channel):
    install_in(monkeypatch, tmp_path, [INSTALLED], "mailbox", SOURCE, "mailboxes")
    with pytest.raises(ChannelClosedByBroker, match="invalid property 'non-durable' for queue 'm'"):
        channel.queue_declare("m", arguments=IS_MAILBOX)


def test_without_the_package_the_kind_is_refused(channel):
    with pytest.raises(ChannelClosedByBroker, match="unsupported queue type"):
        channel.queue_declare("m", durable=True, arguments=IS_MAILBOX)
