"""The targets that a connection keeps."""

import pytest

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.protocols.amqp091.channel.publish_arguments import target_of
from leveret.broker.sessions.targets import TARGETS_MAX, Targets


def arguments(key, exchange="e"):
    return b"\0\0" + encode_short_string(exchange) + encode_short_string(key) + b"\0"


def test_a_target_is_found_again():
    targets = Targets()
    target = target_of(targets, arguments("k"))
    assert (target.address.exchange, target.address.routing_key) == ("e", "k")
    assert target_of(targets, arguments("k")) is target


def test_a_key_that_is_used_stays_while_others_come_and_go():
    targets = Targets()
    used = target_of(targets, arguments("used"))
    for number in range(5 * TARGETS_MAX):
        target_of(targets, arguments(str(number)))
        assert target_of(targets, arguments("used")) is used


def test_keys_that_are_not_used_are_dropped():
    targets = Targets()
    unused = target_of(targets, arguments("unused"))
    for number in range(2 * TARGETS_MAX):
        target_of(targets, arguments(str(number)))
    assert len(targets.recent) <= TARGETS_MAX
    assert target_of(targets, arguments("unused")) is not unused


def test_the_dictionary_of_recent_targets_stays_the_same_object():
    targets = Targets()
    recent = targets.recent
    for number in range(2 * TARGETS_MAX):
        target_of(targets, arguments(str(number)))
    assert targets.recent is recent


def test_malformed_arguments_are_refused():
    with pytest.raises(ConnectionFault):
        target_of(Targets(), arguments("k") + b"\0")


def test_what_was_looked_up_in_an_earlier_generation_is_dropped():
    targets = Targets()
    old, new = target_of(targets, arguments("old")), target_of(targets, arguments("new"))
    old.generation, new.generation = 1, 2
    recent = targets.recent
    targets.drop_outdated(2)
    assert targets.recent is recent
    assert target_of(targets, arguments("new")) is new
    assert target_of(targets, arguments("old")) is not old


def test_what_was_not_used_lately_is_dropped_as_well():
    targets = Targets()
    for number in range(TARGETS_MAX + 1):
        target_of(targets, arguments(str(number)))
    targets.drop_outdated(2)
    assert targets.count == 0


def test_a_target_is_found_by_its_address_in_any_protocol():
    targets = Targets()
    target = targets.find_by_address("e", "k", is_mandatory=False)
    assert targets.find_by_address("e", "k", is_mandatory=False) is target
    assert targets.find_by_address("e", "k", is_mandatory=True) is not target
