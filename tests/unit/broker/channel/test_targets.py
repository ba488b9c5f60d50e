"""The targets that a connection keeps."""

import pytest

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.channel.targets import TARGETS_MAX, Targets


def arguments(key, exchange="e"):
    return b"\0\0" + encode_short_string(exchange) + encode_short_string(key) + b"\0"


def test_a_target_is_found_again():
    targets = Targets()
    target = targets.find(arguments("k"))
    assert (target.address.exchange, target.address.routing_key) == ("e", "k")
    assert targets.find(arguments("k")) is target


def test_a_key_that_is_used_stays_while_others_come_and_go():
    targets = Targets()
    used = targets.find(arguments("used"))
    for number in range(5 * TARGETS_MAX):
        targets.find(arguments(str(number)))
        assert targets.find(arguments("used")) is used


def test_keys_that_are_not_used_are_dropped():
    targets = Targets()
    unused = targets.find(arguments("unused"))
    for number in range(2 * TARGETS_MAX):
        targets.find(arguments(str(number)))
    assert len(targets.recent) <= TARGETS_MAX
    assert targets.find(arguments("unused")) is not unused


def test_the_dictionary_of_recent_targets_stays_the_same_object():
    targets = Targets()
    recent = targets.recent
    for number in range(2 * TARGETS_MAX):
        targets.find(arguments(str(number)))
    assert targets.recent is recent


def test_malformed_arguments_are_refused():
    with pytest.raises(ConnectionFault):
        Targets().find(arguments("k") + b"\0")


def test_what_was_looked_up_in_an_earlier_generation_is_dropped():
    targets = Targets()
    old, new = targets.find(arguments("old")), targets.find(arguments("new"))
    old.generation, new.generation = 1, 2
    recent = targets.recent
    targets.drop_outdated(2)
    assert targets.recent is recent
    assert targets.find(arguments("new")) is new
    assert targets.find(arguments("old")) is not old


def test_what_was_not_used_lately_is_dropped_as_well():
    targets = Targets()
    for number in range(TARGETS_MAX + 1):
        targets.find(arguments(str(number)))
    targets.drop_outdated(2)
    assert targets.count == 0
