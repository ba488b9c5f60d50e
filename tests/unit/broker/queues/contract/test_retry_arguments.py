"""The arguments of delayed retries and delivery limits, and the delays that they ask for."""

import pytest

from leveret.broker.amqp.content_header import Retry, make_header, read_stored
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.contract.retry_delay import delay_ms, delay_text
from leveret.broker.queues.contract.retry_headers import as_delivered, as_published, with_retry
from leveret.broker.queues.served_kinds import served_kinds
from leveret.storage.messages.message import Address, Message
from tests.unit.broker.queues.fakes import specified

MIN, MAX, MULTIPLIER = "min", "max", "multiplier"


def check(**arguments):
    """Check the arguments x-delayed-retry-* of a classic queue."""
    named = {f"x-delayed-retry-{name}": field for name, field in arguments.items()}
    served_kinds().check(specified(named))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"min": ("I", -1)}, "min|{value_negative,-1}"),
        ({"max": ("I", 0)}, "max|{value_zero,0}"),
        ({"min": ("l", 315_360_000_001)}, "min|{value_too_large,315360000001}"),
        ({"min": ("S", "1")}, 'min|"expected integer, got longstr"'),
        ({"min": ("I", 5), "max": ("I", 4)}, "max|{less_than_delayed_retry_min,4,5}"),
        ({"type": ("S", "some")}, "type|invalid_delayed_retry_type"),
        ({"type": ("I", 1)}, "type|{unacceptable_type,signedint}"),
        ({"multiplier": ("S", "2")}, "multiplier|{unacceptable_type,longstr}"),
        ({"multiplier": ("d", 0.5)}, "multiplier|{value_less_than_one,0.5}"),
        ({"multiplier": ("d", float("nan"))}, "multiplier|{value_less_than_one,nan}"),
        ({"multiplier": ("I", 1001)}, "multiplier|{value_too_large,1001}"),
    ],
)
def test_wrong_values_are_refused(arguments, problem):
    name, text = problem.split("|")
    with pytest.raises(ChannelFault) as refused:
        check(**arguments)
    assert str(refused.value) == (
        f"PRECONDITION_FAILED - invalid arg 'x-delayed-retry-{name}' for queue 'q' in vhost '/': "
        f"{text}"
    )
    assert refused.value.reply_code == 406


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": ("S", "all"), "min": ("I", 1), "max": ("I", 1), "multiplier": ("I", 1)},
        {"type": ("S", "failed"), "max": ("I", 4), "multiplier": ("d", 1000.0)},
        {"type": ("S", "disabled")},
    ],
)
def test_right_values_are_taken(arguments):
    check(**arguments)


def test_a_delivery_limit_that_is_no_number_is_refused_for_classic_queues():
    retries = {"x-delayed-retry-type": ("S", "disabled")}
    with pytest.raises(ChannelFault, match="expected integer, got longstr"):
        served_kinds().check(specified(retries | {"x-delivery-limit": ("S", "many")}))
    served_kinds().check(specified(retries | {"x-delivery-limit": ("I", -1)}))


def test_a_delivery_limit_without_a_retry_type_is_refused_for_classic_queues_as_in_rabbitmq():
    with pytest.raises(ChannelFault, match="of queue type rabbit_classic_queue"):
        served_kinds().check(specified({"x-delivery-limit": ("I", 5)}))
    assert CLASSIC_QUEUE.refused_keys({"delivery-limit": 5}) == ["delivery-limit"]
    assert not CLASSIC_QUEUE.refused_keys({"delivery-limit": 5, "delayed-retry-type": "failed"})


@pytest.mark.parametrize(
    ("multiplier_thousandths", "delays"),
    [
        (0, [10, 10, 20, 30, 40, 50, 50]),
        (1000, [10, 10, 10, 10]),
        (1500, [10, 10, 15, 22, 33, 50, 50]),
        (2000, [10, 10, 20, 40, 50]),
    ],
)
def test_delays_grow(multiplier_thousandths, delays):
    found = [delay_ms(count, 10, 50, multiplier_thousandths) for count in range(len(delays))]
    assert found == delays


def test_a_delay_has_a_bound_for_any_number_of_returns():
    assert delay_ms(1 << 60, 1, 1 << 40, 1001) <= 1 << 40
    assert delay_ms(5, 10, 5, 2000) == 5


def test_delays_are_shown_as_rabbitmq_shows_them():
    assert delay_text("all", 1, 5, 0) == "all (min: 1ms, max: 5ms)"
    assert delay_text("failed", 1, 5, 1500) == "failed (min: 1ms, max: 5ms, multiplier: 1.5)"


def test_the_count_is_stored_and_shown_and_removed_again():
    header = make_header({"headers": {"a": ("I", 1)}, "priority": 3}, ["key"])
    message = Message(Address("", "q", b"\0\1q"), header, b"body")
    waiting = with_retry(message, Retry(2, 12345))
    assert waiting.header.raw == header.raw
    restored = read_stored(waiting.header.stored)
    assert (restored.mark, restored.raw, restored.bcc_keys) == (
        Retry(2, 12345), header.raw, ("key",)
    )  # fmt: skip
    delivered = as_delivered(waiting)
    assert delivered.header.headers == {"a": ("I", 1), "x-delivery-count": ("l", 2)}
    assert with_retry(delivered, Retry(3, 0)).header.raw == header.raw
    assert as_published(delivered).header.stored == header.stored
    assert as_published(message) is message
