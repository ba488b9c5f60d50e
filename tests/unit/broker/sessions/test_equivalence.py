"""Redeclaration of existing objects."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.sessions.equivalence import require_same, require_same_arguments

WHAT = "queue 'q' in vhost '/'"
TTL = "x-message-ttl"


def refusal(check, *arguments):
    with pytest.raises(ChannelFault) as caught:
        check(*arguments, WHAT)
    assert caught.value.reply_code == 406
    return caught.value.reply_text


def test_equal_values_pass():
    require_same("durable", True, True, WHAT)
    require_same_arguments([TTL], {}, {}, WHAT)
    require_same_arguments([TTL], {TTL: ("I", 5)}, {TTL: ("I", 5)}, WHAT)


@pytest.mark.parametrize(
    ("received", "current", "words"),
    [
        (True, False, "received 'true' but current is 'false'"),
        ("fanout", "direct", "received 'fanout' but current is 'direct'"),
    ],
)
def test_attributes_that_differ(received, current, words):
    assert refusal(require_same, "durable", received, current) == (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for {WHAT}: {words}"
    )


@pytest.mark.parametrize(
    ("received", "current"),
    [(("I", 5), ("l", 5)), (("b", 5), ("u", 5)), (("f", 0.5), ("d", 0.5))],
)
def test_numbers_are_compared_by_value(received, current):
    require_same_arguments([TTL], {TTL: received}, {TTL: current}, WHAT)


@pytest.mark.parametrize(
    ("received", "current", "words"),
    [
        (("I", 5), ("I", 6), "received '5' but current is '6'"),
        (("I", 5), ("l", 6), "received '5' but current is '6'"),
        (("S", "5"), ("I", 5), "received '5' but current is '5'"),
        (("d", 5.0), ("I", 5), "received '5.0' but current is '5'"),
        (("t", True), ("t", False), "received 'true' but current is 'false'"),
        (None, ("I", 5), "received none but current is the value '5' of type 'signedint'"),
        (("S", "a"), None, "received the value 'a' of type 'longstr' but current is none"),
    ],
)
def test_arguments_that_differ(received, current, words):
    tables = [{TTL: field} if field is not None else {} for field in (received, current)]
    assert refusal(require_same_arguments, [TTL], *tables) == (
        f"PRECONDITION_FAILED - inequivalent arg '{TTL}' for {WHAT}: {words}"
    )


def test_only_the_named_arguments_are_compared():
    require_same_arguments([TTL], {"mine": ("I", 1)}, {"mine": ("I", 2)}, WHAT)


def test_the_first_of_several_differences_is_named():
    received = {"x-expires": ("I", 1), TTL: ("I", 1)}
    assert "'x-expires'" in refusal(require_same_arguments, ["x-expires", TTL], received, {})
