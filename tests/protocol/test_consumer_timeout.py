"""A delivery that is not acknowledged in time closes its consumer's channel."""

import pytest
from pamqp import commands

from leveret.broker.config import Config
from leveret.testing import EmbeddedBroker
from tests.protocol.raw_client import opened

TEXT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: "
    "90000 ms. This timeout value can be configured, see consumers doc guide to learn more"
)
CHECK_SECONDS = 60


@pytest.fixture
def impatient():
    """A broker with a timeout of 90 seconds, which it checks once a minute."""
    config = Config(consumer_timeout_ms=90_000)
    with EmbeddedBroker.in_thread(config, virtual_clock=True) as broker:
        yield broker


@pytest.fixture
def consumer(impatient):
    """A consumer with three unacknowledged messages."""
    with opened(impatient) as client:
        client.declare("q")
        for number in range(3):
            client.publish(1, "q", b"%d" % number)
        client.consume("q")
        for _ in range(3):
            client.read_content(1, commands.Basic.Deliver)
        yield client


def test_the_channel_is_closed_and_its_messages_go_back(impatient, consumer, caplog):
    impatient.advance(CHECK_SECONDS)
    consumer.declare("q")
    impatient.advance(CHECK_SECONDS)
    closed = consumer.read_method(1, commands.Channel.Close)
    assert (closed.reply_code, closed.reply_text) == (406, TEXT)
    assert (closed.class_id, closed.method_id) == (0, 0)
    consumer.send_method(1, commands.Channel.CloseOk)

    consumer.open_channel(1)
    for number in range(3):
        message = consumer.take("q")
        assert message.body == b"%d" % number
        assert message.method.redelivered
    assert [line for line in caplog.messages if consumer.name in line and TEXT in line]


def test_other_channels_of_the_connection_go_on(impatient, consumer):
    consumer.open_channel(2)
    consumer.consume("q", channel=2)
    impatient.advance(2 * CHECK_SECONDS)
    consumer.read_method(1, commands.Channel.Close)
    for number in range(3):
        assert consumer.read_content(2, commands.Basic.Deliver).body == b"%d" % number
    consumer.declare("q", channel=2)


def test_the_oldest_delivery_counts(impatient, consumer):
    impatient.advance(CHECK_SECONDS)
    consumer.send_method(1, commands.Basic.Ack, delivery_tag=2, multiple=False)
    consumer.declare("q")
    impatient.advance(CHECK_SECONDS)
    consumer.read_method(1, commands.Channel.Close)


def test_acknowledging_in_time_is_enough(impatient, consumer):
    impatient.advance(CHECK_SECONDS)
    consumer.send_method(1, commands.Basic.Ack, delivery_tag=3, multiple=True)
    consumer.declare("q")
    impatient.advance(100 * CHECK_SECONDS)
    consumer.declare("q")


def test_messages_that_were_got_count_too(impatient):
    with opened(impatient) as client:
        client.declare("q")
        client.publish(1, "q", b"x")
        client.send_method(1, commands.Basic.Get, queue="q")
        client.read_content(1, commands.Basic.GetOk)
        impatient.advance(2 * CHECK_SECONDS)
        client.read_method(1, commands.Channel.Close)


def test_consumers_that_need_not_acknowledge_may_take_their_time(impatient):
    with opened(impatient) as client:
        client.declare("q")
        client.consume("q", no_ack=True)
        client.publish(1, "q", b"x")
        client.read_content(1, commands.Basic.Deliver)
        impatient.advance(10 * CHECK_SECONDS)
        client.declare("q")


@pytest.mark.parametrize("timeout_ms", [60_000, 150_000])
def test_a_queue_may_have_its_own_timeout(impatient, timeout_ms):
    with opened(impatient) as client:
        client.declare("q", arguments={"x-consumer-timeout": ("I", timeout_ms)})
        client.publish(1, "q", b"x")
        client.consume("q")
        client.read_content(1, commands.Basic.Deliver)
        impatient.advance(timeout_ms // 1000)
        client.declare("q", passive=True)
        impatient.advance(CHECK_SECONDS)
        closed = client.read_method(1, commands.Channel.Close)
        assert closed.reply_text == TEXT.replace("90000", str(timeout_ms))


def test_a_consumer_of_a_quorum_queue_may_have_its_own_timeout(impatient):
    with opened(impatient) as client:
        client.declare("q", durable=True, arguments={"x-queue-type": ("S", "quorum")})
        client.publish(1, "q", b"x")
        client.consume("q", arguments={"x-consumer-timeout": ("I", 30_000)})
        client.read_content(1, commands.Basic.Deliver)
        impatient.advance(CHECK_SECONDS)
        closed = client.read_method(1, commands.Channel.Close)
        assert closed.reply_text == TEXT.replace("90000", "30000")


def have_queue_time_out(embedded):
    """Have the queue of the only consumer tell it that it has taken its messages back."""
    (one,) = (
        consumer
        for connection in embedded.broker.connections
        for channel in connection.channels.values()
        for consumer in channel.consumers.values()
    )
    one.timed_out()


def test_a_queue_that_has_taken_messages_back_ends_the_channel(impatient, consumer):
    def time_out(embedded):
        (connection,) = embedded.broker.connections
        (one,) = connection.channels[1].consumers.values()
        one.timed_out()
        one.timed_out()

    impatient.call(time_out)
    closed = consumer.read_method(1, commands.Channel.Close)
    assert (closed.reply_code, closed.reply_text) == (406, TEXT)
    consumer.send_method(1, commands.Channel.CloseOk)
    consumer.open_channel(1)
    assert consumer.take("q").body == b"0"


@pytest.fixture
def as_4_3():
    """As `impatient`, by the rules of RabbitMQ 4.3, with a message in a quorum queue."""
    config = Config(compat="4.x", consumer_timeout_ms=90_000)
    with (
        EmbeddedBroker.in_thread(config, virtual_clock=True) as broker,
        opened(broker) as client,
    ):
        client.declare("q", durable=True, arguments={"x-queue-type": ("S", "quorum")})
        client.publish(1, "q", b"x")

        def let_pass(minutes):
            for _ in range(minutes):
                broker.advance(CHECK_SECONDS)
                client.declare("q", passive=True)

        broker.let_pass = let_pass
        yield broker


def test_since_4_3_the_consumer_is_cancelled_and_its_late_acks_are_ignored(as_4_3, caplog):
    with opened(as_4_3) as late:
        late.consume("q", consumer_tag="late")
        late.read_content(1, commands.Basic.Deliver)
        with opened(as_4_3) as other:
            other.consume("q")
            as_4_3.let_pass(3)
            assert late.read_method(1, commands.Basic.Cancel).consumer_tag == "late"
            assert "consumer 'late' of queue 'q' is cancelled" in caplog.text
            assert other.read_content(1, commands.Basic.Deliver).body == b"x"
            late.send_method(1, commands.Basic.Ack, delivery_tag=1)
            late.consume("q", consumer_tag="late")
        again = late.read_content(1, commands.Basic.Deliver)
        assert (again.body, again.method.delivery_tag) == (b"x", 2)


def test_since_4_3_nobody_is_warned_of_what_the_queue_has_taken_back(as_4_3):
    with opened(as_4_3) as late:
        late.consume("q")
        late.read_content(1, commands.Basic.Deliver)
        as_4_3.call(have_queue_time_out)
        late.read_method(1, commands.Basic.Cancel)
        as_4_3.let_pass(2)
        assert counts_of(as_4_3)[0] == 0


def test_since_4_3_what_a_consumer_got_later_is_still_its_own(as_4_3):
    with opened(as_4_3) as client:
        client.consume("q")
        client.read_content(1, commands.Basic.Deliver)
        as_4_3.let_pass(2)
        client.publish(1, "q", b"later")
        assert client.read_content(1, commands.Basic.Deliver).body == b"later"
        as_4_3.let_pass(1)
        client.read_method(1, commands.Basic.Cancel)
        client.send_method(1, commands.Basic.Ack, delivery_tag=2)
        assert client.take("q").body == b"x"
        client.send_method(1, commands.Basic.Get, queue="q")
        client.read_method(1, commands.Basic.GetEmpty)


@pytest.fixture
def cancelling():
    """A broker that cancels consumers after 90 seconds."""
    config = Config(consumer_timeout_ms=90_000, consumer_timeout_action="cancel_consumer")
    with EmbeddedBroker.in_thread(config, virtual_clock=True) as broker:
        yield broker


def counts_of(broker):
    """The warnings and the timeouts so far."""
    counts = broker.call(lambda embedded: embedded.broker.services.counts)
    return counts.consumer_timeout_warnings, counts.consumer_timeouts


def test_a_warning_comes_when_four_fifths_are_over(caplog):
    config = Config(consumer_timeout_ms=200_000)
    with EmbeddedBroker.in_thread(config, virtual_clock=True) as broker, opened(broker) as client:
        client.declare("q")
        client.consume("q", consumer_tag="slow")
        client.publish(1, "q", b"x")
        client.read_content(1, commands.Basic.Deliver)
        for _ in range(2):
            broker.advance(CHECK_SECONDS)
            client.declare("q")
        assert counts_of(broker) == (0, 0)
        broker.advance(CHECK_SECONDS)
        client.declare("q")
        assert counts_of(broker) == (1, 0)
        broker.advance(CHECK_SECONDS)
        client.read_method(1, commands.Channel.Close)
        assert counts_of(broker) == (1, 1)
    (line,) = [line for line in caplog.messages if "consumer 'slow'" in line]
    assert "has not acknowledged a message of queue 'q' for 180 s; the timeout is 200 s" in line


def test_each_delivery_is_warned_of_once(caplog):
    """Also a message that was got, and those of a consumer that its client has cancelled."""
    config = Config(consumer_timeout_ms=600_000)
    with EmbeddedBroker.in_thread(config, virtual_clock=True) as broker, opened(broker) as client:
        client.declare("q")
        for tag in ("gone", "slow"):
            client.consume("q", consumer_tag=tag)
            client.publish(1, "q", b"x")
            client.read_content(1, commands.Basic.Deliver)
            if tag == "gone":
                client.call(1, commands.Basic.Cancel, commands.Basic.CancelOk, consumer_tag=tag)
        client.declare("other")
        client.publish(1, "other", b"x")
        client.send_method(1, commands.Basic.Get, queue="other")
        client.read_content(1, commands.Basic.GetOk)
        for _ in range(10):
            broker.advance(CHECK_SECONDS)
            client.declare("q")
        assert counts_of(broker) == (3, 0)
    named = [line for line in caplog.messages if "has not acknowledged a message" in line]
    assert len(named) == 3
    assert "consumer 'gone'" in named[0]


def test_the_consumer_alone_is_cancelled_where_a_setting_says_so(cancelling, caplog):
    with opened(cancelling) as client:
        client.declare("q")
        client.consume("q", consumer_tag="slow")
        client.publish(1, "q", b"x")
        client.read_content(1, commands.Basic.Deliver)
        cancelling.advance(2 * CHECK_SECONDS)
        assert client.read_method(1, commands.Basic.Cancel).consumer_tag == "slow"
        assert counts_of(cancelling) == (1, 1)
        message = client.take("q")
        assert (message.body, message.method.redelivered) == (b"x", True)
    (line,) = [line for line in caplog.messages if "is cancelled" in line]
    assert "consumer 'slow' of queue 'q' is cancelled" in line
    assert "90000 ms" in line


def test_what_a_cancelled_consumer_holds_goes_back_and_nobody_is_notified(cancelling):
    with opened(cancelling) as client:
        client.declare("q")
        client.consume("q", consumer_tag="gone")
        client.publish(1, "q", b"x")
        client.read_content(1, commands.Basic.Deliver)
        client.call(1, commands.Basic.Cancel, commands.Basic.CancelOk, consumer_tag="gone")
        cancelling.advance(2 * CHECK_SECONDS)
        assert client.declare("q").message_count == 1
        assert client.take("q").body == b"x"


def test_a_consumer_that_its_queue_has_cancelled_is_not_cancelled_again(cancelling):
    """Quorum queues check the timeouts that consumers ask for by themselves."""
    with opened(cancelling) as client:
        client.declare("q", durable=True, arguments={"x-queue-type": ("S", "quorum")})
        client.consume("q", arguments={"x-consumer-timeout": ("I", 30_000)})
        client.publish(1, "q", b"x")
        client.read_content(1, commands.Basic.Deliver)
        cancelling.call(have_queue_time_out)
        client.read_method(1, commands.Basic.Cancel)
        cancelling.advance(2 * CHECK_SECONDS)
        client.declare("q", passive=True)
        assert counts_of(cancelling)[1] == 1


def test_what_others_held_before_does_not_hide_a_late_consumer():
    """A consumer that its client has cancelled, and a message that was got."""
    patient = {"x-consumer-timeout": ("I", 3_600_000)}
    config = Config(consumer_timeout_ms=3_600_000, consumer_timeout_action="cancel_consumer")
    with EmbeddedBroker.in_thread(config, virtual_clock=True) as broker, opened(broker) as client:
        for queue in ("a", "b", "c"):
            client.declare(queue)
            client.publish(1, queue, b"x")
        client.consume("a", consumer_tag="gone", arguments=patient)
        client.read_content(1, commands.Basic.Deliver)
        client.call(1, commands.Basic.Cancel, commands.Basic.CancelOk, consumer_tag="gone")
        client.send_method(1, commands.Basic.Get, queue="b")
        client.read_content(1, commands.Basic.GetOk)
        client.consume("c", consumer_tag="late", arguments={"x-consumer-timeout": ("I", 60_000)})
        client.read_content(1, commands.Basic.Deliver)
        broker.advance(CHECK_SECONDS)
        client.declare("a")
        broker.advance(CHECK_SECONDS)
        assert client.read_method(1, commands.Basic.Cancel).consumer_tag == "late"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (commands.Basic.Ack, {"multiple": False}), (commands.Basic.Ack, {"multiple": True}),
        (commands.Basic.Nack, {"multiple": False, "requeue": True}),
        (commands.Basic.Reject, {"requeue": False}),
    ],
    ids=["ack", "multiple", "nack", "reject"],
)  # fmt: skip
def test_late_settlements_of_a_cancelled_consumer_have_no_effect(cancelling, method, arguments):
    with opened(cancelling) as client:
        client.declare("q")
        client.consume("q")
        for number in range(2):
            client.publish(1, "q", b"%d" % number)
            client.read_content(1, commands.Basic.Deliver)
        cancelling.advance(2 * CHECK_SECONDS)
        client.read_method(1, commands.Basic.Cancel)
        client.send_method(1, method, delivery_tag=2, **arguments)
        assert client.declare("q").message_count == 2
        client.send_method(1, commands.Basic.Ack, delivery_tag=9)
        assert client.read_method(1, commands.Channel.Close).reply_code == 406


def test_a_late_ack_of_many_settles_those_of_other_consumers(cancelling):
    patient = {"x-consumer-timeout": ("I", 600_000)}
    with opened(cancelling) as client:
        for queue, arguments in (("kept", patient), ("slow", {})):
            client.declare(queue)
            client.consume(queue, consumer_tag=queue, arguments=arguments)
            client.publish(1, queue, b"x")
            client.read_content(1, commands.Basic.Deliver)
        cancelling.advance(2 * CHECK_SECONDS)
        assert client.read_method(1, commands.Basic.Cancel).consumer_tag == "slow"
        client.send_method(1, commands.Basic.Ack, delivery_tag=2, multiple=True)
        client.send_method(1, commands.Basic.Ack, delivery_tag=1, multiple=False)
        assert client.read_method(1, commands.Channel.Close).reply_text.endswith("tag 1")


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_each_consumer_has_its_own_timeout_whatever_others_hold(cancelling, kind):
    of_kind = {"x-queue-type": ("S", kind)}
    with opened(cancelling) as client:
        client.declare("q", durable=True, arguments=of_kind)
        client.declare("hasty", durable=True, arguments=of_kind)
        client.consume(
            "q", consumer_tag="patient", arguments={"x-consumer-timeout": ("I", 600_000)}
        )
        client.consume(
            "hasty", consumer_tag="hasty", arguments={"x-consumer-timeout": ("I", 60_000)}
        )
        for queue in ("q", "hasty"):
            client.publish(1, queue, b"x")
            client.read_content(1, commands.Basic.Deliver)
        cancelling.advance(2 * CHECK_SECONDS)
        assert client.read_method(1, commands.Basic.Cancel).consumer_tag == "hasty"
        client.send_method(1, commands.Basic.Ack, delivery_tag=1)
        assert client.declare("q", durable=True, arguments=of_kind).message_count == 0


def test_a_message_that_was_got_still_ends_the_channel(cancelling):
    with opened(cancelling) as client:
        client.declare("q")
        client.publish(1, "q", b"x")
        client.send_method(1, commands.Basic.Get, queue="q")
        client.read_content(1, commands.Basic.GetOk)
        cancelling.advance(2 * CHECK_SECONDS)
        client.read_method(1, commands.Channel.Close)
