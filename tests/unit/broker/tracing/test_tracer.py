"""Tracers: their sinks, message numbers, and isolation of failing sinks."""

from types import SimpleNamespace

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.events.taps import TRACE_EXCHANGE, Sink
from leveret.broker.runtime.message_numbers import MessageNumbers
from leveret.broker.tracing.firehose import Firehose
from leveret.broker.tracing.sinks import Tracing
from leveret.broker.tracing.tracer import Tracer
from leveret.storage.messages.message import Address, Entry, Message
from tests.unit.broker.tracing.stand_ins import Vhost

PLAIN = read_header(b"\0\0")


class Listening(Sink):
    """Records two kinds of events."""

    def __init__(self):
        self.heard = []

    def published(self, channel, messages, routing_keys, queues, reason=""):
        self.heard.append(("published", [message.body for message in messages]))

    def delivered(self, channel, queue, consumer_tag, entries, first_tag, no_ack):
        self.heard.append(("delivered", [entry.message.body for entry in entries], first_tag))

    def acked(self, channel, settled):
        self.heard.append(("acked", [tag for tag, _ in settled]))

    def detached(self):
        self.heard.append("detached")


class Failing(Listening):
    """Fails when a message is published."""

    def published(self, channel, messages, routing_keys, queues, reason=""):
        raise OSError("the disk is gone")


def message(body=b"", exchange="x", number=0):
    return Message(Address(exchange, "k", encode_address(exchange, "k")), PLAIN, body, None, number)


def entry(position, **arguments):
    return Entry(message(**arguments), position)


@pytest.fixture
def vhost():
    return Vhost()


@pytest.fixture
def tracing():
    return Tracing(MessageNumbers(lambda: 1_700_000_000.5), "leveret@host")


def test_a_vhost_has_a_tracer_while_it_has_a_sink(tracing, vhost):
    first, second = Listening(), Listening()
    tracing.attach(vhost, first)
    tracing.attach(vhost, second)
    vhost.tracer.published(None, [message(b"a")], ["k"], [])
    tracing.detach(vhost, first)
    vhost.tracer.published(None, [message(b"b")], ["k"], [])
    tracing.detach(vhost, second)
    assert vhost.tracer is None
    assert first.heard == [("published", [b"a"]), "detached"]
    assert second.heard == [("published", [b"a"]), ("published", [b"b"]), "detached"]


def test_a_sink_is_detached_once(tracing, vhost):
    sink = Listening()
    tracing.attach(vhost, sink)
    tracing.detach(vhost, sink)
    tracing.detach(vhost, sink)
    assert sink.heard == ["detached"]


def test_a_deleted_vhost_lets_its_sinks_go(tracing, vhost):
    sink = Listening()
    tracing.attach(vhost, sink)
    tracing.set_firehose(vhost, True)
    tracing.forget_vhost(vhost)
    assert (vhost.tracer, vhost.is_traced, sink.heard) == (None, False, ["detached"])


def test_the_firehose_is_on_or_off_however_often_that_is_said(tracing, vhost):
    tracing.set_firehose(vhost, True)
    tracing.set_firehose(vhost, True)
    assert vhost.is_traced
    assert len(tracing.sinks(vhost)) == 1
    tracing.set_firehose(vhost, False)
    tracing.set_firehose(vhost, False)
    assert not vhost.is_traced
    assert vhost.tracer is None


def test_nothing_is_published_while_nothing_is_bound_to_the_firehose(tracing, vhost):
    tracing.set_firehose(vhost, True)
    assert vhost.tracer is None
    vhost.bind()
    assert vhost.tracer.sinks == tracing.sinks(vhost)
    told = vhost.tracer
    vhost.routes_changed()
    assert vhost.tracer is told
    vhost.bind(False)
    assert vhost.tracer is None
    vhost.exchanges[TRACE_EXCHANGE].alternate = "another exchange"
    vhost.routes_changed()
    assert vhost.tracer.sinks == tracing.sinks(vhost)


def test_a_sink_is_told_beside_a_firehose_without_a_binding(tracing, vhost):
    sink = Listening()
    tracing.set_firehose(vhost, True)
    tracing.attach(vhost, sink)
    assert vhost.tracer.sinks == (sink,)
    vhost.bind()
    assert vhost.tracer.sinks == tracing.sinks(vhost)
    tracing.detach(vhost, sink)
    assert vhost.tracer.sinks == tracing.sinks(vhost)


def test_bindings_count_no_more_when_the_firehose_is_off(tracing, vhost):
    tracing.set_firehose(vhost, True)
    tracing.set_firehose(vhost, False)
    vhost.bind()
    assert (vhost.tracer, vhost.routes_listener) == (None, None)


def test_the_end_of_the_node_lets_all_sinks_go(tracing, vhost):
    other, sinks = Vhost("other"), [Listening(), Listening(), Listening()]
    for place, sink in zip((vhost, vhost, other), sinks, strict=True):
        tracing.attach(place, sink)
    tracing.stop()
    assert [sink.heard for sink in sinks] == [["detached"]] * 3
    assert (vhost.tracer, other.tracer) == (None, None)


def test_a_sink_that_fails_is_dropped_and_harms_no_other(tracing, vhost, caplog):
    failing, sink = Failing(), Listening()
    tracing.attach(vhost, failing)
    tracing.attach(vhost, sink)
    vhost.tracer.published(None, [message(b"a")], ["k"], [])
    vhost.tracer.published(None, [message(b"b")], ["k"], [])
    assert sink.heard == [("published", [b"a"]), ("published", [b"b"])]
    assert failing.heard == ["detached"]
    assert tracing.sinks(vhost) == (sink,)
    assert "the disk is gone" in caplog.text


def test_what_a_sink_does_not_override_is_not_called(monkeypatch):
    monkeypatch.setattr(Sink, "expired", lambda *arguments: pytest.fail("it was called"))
    tracer = Tracer(MessageNumbers(lambda: 0), [Listening()], lambda sink: None)
    tracer.expired(SimpleNamespace(name="q"), message())


def test_acks_need_not_be_told_if_no_sink_has_a_use_for_them():
    firehose, numbers = Firehose(Vhost(), "leveret@host"), MessageNumbers(lambda: 0)
    assert not Tracer(numbers, [firehose], lambda sink: None).hears_acks
    assert Tracer(numbers, [firehose, Listening()], lambda sink: None).hears_acks


def test_what_went_through_the_firehose_is_not_traced():
    sink = Listening()
    tracer = Tracer(MessageNumbers(lambda: 0), [sink], lambda sink: None)
    copy = {"exchange": TRACE_EXCHANGE}
    tracer.published(None, [message(b"copy", **copy)], ["k"], [])
    entries = [entry(0, body=b"a", number=5), entry(1, body=b"copy", **copy), entry(2, body=b"b")]
    tracer.delivered(None, None, "tag", entries, 10, False)
    settled = [(tag, SimpleNamespace(entry=one)) for tag, one in enumerate(entries, 10)]
    tracer.acked(None, settled)
    tracer.acked(None, settled[1:2])
    assert sink.heard == [
        ("delivered", [b"a"], 10), ("delivered", [b"b"], 12), ("acked", [10, 12]),
    ]  # fmt: skip


def test_entries_that_are_delivered_together_are_told_together():
    sink = Listening()
    tracer = Tracer(MessageNumbers(lambda: 0), [sink], lambda sink: None)
    tracer.delivered(None, None, "tag", [entry(0, body=b"a"), entry(1, body=b"b")], 4, True)
    assert sink.heard == [("delivered", [b"a", b"b"], 4)]


def test_vhosts_share_the_row_of_numbers(tracing):
    one, other = Vhost("one"), Vhost("other")
    tracing.attach(one, Listening())
    tracing.attach(other, Listening())
    first = one.tracer.take_numbers(10)
    assert other.tracer.take_numbers(1) == first + 10
