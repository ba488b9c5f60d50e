"""Queue arguments, and the errors for invalid ones."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import INTEGER_LETTERS
from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.queues.contract.arguments import (
    QueueOptions,
    check_consume_arguments,
    check_dead_letter_exchange,
    check_declare_arguments,
    check_queue_type,
    read_options,
)
from leveret.broker.queues.contract.queue_kind import EVERY_ARGUMENT, EVERY_CONSUMER_ARGUMENT

DLX = {"x-dead-letter-exchange": ("S", "dlx")}


def refusal(check, arguments):
    """Return the error for the arguments."""
    with pytest.raises(ChannelFault) as caught:
        check(arguments, "q", "/")
    assert caught.value.reply_code == 406
    return caught.value.explanation


def check_declare(arguments, queue, vhost):
    check_queue_type(arguments, ("classic", "quorum", "stream"), queue, vhost)
    check_declare_arguments(arguments, EVERY_ARGUMENT, queue, vhost)


def check_consume(arguments, queue, vhost):
    check_consume_arguments(arguments, EVERY_CONSUMER_ARGUMENT, queue, vhost)


def test_without_arguments_nothing_is_asked_for():
    check_declare({}, "q", "/")
    options = read_options({})
    assert options == QueueOptions()
    assert not options.has_limit
    assert not options.rejects_when_full


def test_every_argument_is_read():
    arguments = {
        "x-message-ttl": ("I", 1000), "x-expires": ("l", 2000), "x-max-length": ("s", 3),
        "x-max-length-bytes": ("I", 4), "x-overflow": ("S", "reject-publish"),
        "x-dead-letter-exchange": ("S", "dlx"), "x-dead-letter-routing-key": ("S", "dead"),
        "x-max-priority": ("b", 5), "x-single-active-consumer": ("t", True),
        "x-queue-mode": ("S", "lazy"), "x-queue-type": ("S", "classic"),
        "x-queue-version": ("I", 2), "x-unknown": ("V", None), "x-consumer-timeout": ("I", 6),
        "x-delivery-limit": ("I", 7), "x-delayed-retry-type": ("S", "all"),
        "x-delayed-retry-min": ("I", 8), "x-delayed-retry-max": ("I", 9), "x-max-age": ("S", "2m"),
        "x-delayed-retry-multiplier": ("d", 1.5),
        "x-stream-max-segment-size-bytes": ("I", 10), "x-stream-filter-size-bytes": ("I", 16),
    }  # fmt: skip
    check_declare(arguments, "q", "/")
    options = read_options(arguments)
    assert options == QueueOptions(
        1000,
        2000,
        3,
        4,
        "reject-publish",
        "dlx",
        "dead",
        5,
        True,
        "lazy",
        6,
        7,
        "",
        "all",
        8,
        9,
        1.5,
        120_000,
        10,
        16,
    )
    assert options.has_limit


@pytest.mark.parametrize("name", ["x-max-length", "x-max-length-bytes"])
def test_each_maximum_is_a_limit_even_if_it_is_0(name):
    assert read_options({name: ("I", 0)}).has_limit


@pytest.mark.parametrize("letter", sorted(INTEGER_LETTERS))
def test_integers_may_be_of_any_width(letter):
    check_declare({"x-message-ttl": (letter, 60)}, "q", "/")


@pytest.mark.parametrize(
    ("arguments", "term"),
    [
        ({"x-message-ttl": ("S", "60")}, '"expected integer, got longstr"'),
        ({"x-message-ttl": ("d", 60.0)}, '"expected integer, got double"'),
        ({"x-message-ttl": ("t", True)}, '"expected integer, got bool"'),
        ({"x-message-ttl": ("I", -1)}, "{value_negative,-1}"),
        ({"x-message-ttl": ("l", TTL_MS_MAX + 1)}, "{value_too_large,315360000001}"),
        ({"x-expires": ("I", 0)}, "{value_zero,0}"),
        ({"x-expires": ("I", -5)}, "{value_negative,-5}"),
        ({"x-max-length": ("I", -1)}, "{value_negative,-1}"),
        ({"x-max-length-bytes": ("S", "1")}, '"expected integer, got longstr"'),
        ({"x-max-priority": ("I", 256)}, "{max_value_exceeded,256}"),
        ({"x-max-priority": ("I", -1)}, "{value_negative,-1}"),
        ({"x-dead-letter-exchange": ("I", 1)}, "{unacceptable_type,signedint}"),
        ({"x-dead-letter-routing-key": ("S", "k")}, "routing_key_but_no_dlx_defined"),
        ({**DLX, "x-dead-letter-routing-key": ("I", 1)}, "{unacceptable_type,signedint}"),
        ({"x-overflow": ("S", "drop-tail")}, "invalid_overflow"),
        ({"x-overflow": ("I", 1)}, "{unacceptable_type,signedint}"),
        ({"x-queue-mode": ("S", "eager")}, "\"unsupported queue mode 'eager'\""),
        ({"x-queue-type": ("S", "fast")}, "\"unsupported queue type 'fast'\""),
        ({"x-queue-version": ("I", 3)}, "\"unsupported queue version '3'\""),
        ({"x-single-active-consumer": ("S", "true")}, "{unacceptable_type,longstr}"),
        ({"x-expire-on-time": ("S", "true")}, "{unacceptable_type,longstr}"),
        ({"x-expire-on-time": ("I", 1)}, "{unacceptable_type,signedint}"),
    ],
)
def test_arguments_that_are_refused(arguments, term):
    name = list(arguments)[-1]
    text = refusal(check_declare, arguments)
    assert text == f"invalid arg '{name}' for queue 'q' in vhost '/': {term}"


@pytest.mark.parametrize("value", [0, TTL_MS_MAX])
def test_the_shortest_and_the_longest_time_to_live(value):
    check_declare({"x-message-ttl": ("l", value)}, "q", "/")


def test_arguments_of_consumers():
    check_consume({"x-priority": ("I", -3), "mine": ("V", None)}, "q", "/")
    assert refusal(check_consume, {"x-priority": ("S", "1")}) == (
        "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\""
    )


def test_the_dead_letter_exchange():
    assert check_dead_letter_exchange({}, "q", "/") is None
    assert check_dead_letter_exchange(DLX, "q", "/") == "dlx"
    assert refusal(check_dead_letter_exchange, {"x-dead-letter-exchange": ("I", 1)}) == (
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )
