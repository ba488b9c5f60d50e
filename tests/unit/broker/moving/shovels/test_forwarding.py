"""What a shovel changes in messages, and whether they come back to where they were taken."""

from types import SimpleNamespace

import pytest

from leveret.broker.amqp.properties import decode_properties, encode_properties
from leveret.broker.moving.shovels.forwarding import facts_of, leads_back, readdress_of
from leveret.broker.policies.shovel_parameter import parse_shovel

ENDS = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://"}
NOW_S = 1_700_000_000.5


def nobody_asks():
    """Messages may come back to their source."""


def changed(properties, came_round=nobody_asks, redelivered=False, **value):
    definition = parse_shovel(
        "s", ENDS | {key.replace("_", "-"): one for key, one in value.items()}
    )
    facts = facts_of("s", "/", "cluster", ("amqp://one", "amqp://two"), definition)
    change = readdress_of(definition, lambda: facts, lambda: NOW_S, came_round).change
    delivery = SimpleNamespace(properties=encode_properties(properties), redelivered=redelivered)
    return decode_properties(change(delivery))


@pytest.mark.parametrize(
    ("destination", "back"),
    [
        ({"dest-queue": "q"}, True),
        ({"dest-queue": "other"}, False),
        ({}, True),
        ({"dest-exchange": "x"}, False),
        ({"dest-exchange": "", "dest-exchange-key": "q"}, True),
        ({"dest-exchange": "", "dest-exchange-key": "other"}, False),
        ({"dest-exchange-key": "other"}, False),
    ],
)
def test_messages_come_back_if_both_ends_are_one(destination, back):
    assert leads_back(parse_shovel("s", ENDS | destination)) is back


def test_messages_of_an_exchange_do_not_come_back():
    value = {"src-uri": "amqp://", "src-exchange": "x", "dest-uri": "amqp://", "dest-queue": "q"}
    assert not leads_back(parse_shovel("s", value))


def test_properties_are_left_alone_unless_something_is_asked_for():
    assert readdress_of(parse_shovel("s", ENDS), dict, lambda: NOW_S, nobody_asks).change is None


def test_properties_are_replaced():
    found = changed({"type": "old", "app_id": "a"}, dest_publish_properties={"type": "new"})
    assert found == {"type": "new", "app_id": "a"}


def test_each_shovel_is_the_first_in_the_header():
    once = changed({}, dest_queue="t", dest_add_forward_headers=True)
    twice = changed(once, dest_queue="t", dest_add_forward_headers=True)
    kind, entries = twice["headers"]["x-shovelled"]
    assert (kind, len(entries)) == ("A", 2)
    letter, newest = entries[0]
    assert letter == "F"
    assert set(newest) == {
        "shovelled-by", "shovel-type", "shovel-name", "shovel-vhost", "src-uri", "dest-uri",
        "dest-queue", "src-queue",
    }  # fmt: skip


@pytest.mark.parametrize("before", [{}, {"headers": {"x-shovelled": ("A", [("F", {})])}}])
def test_a_message_that_the_shovel_has_moved_before_is_told(before):
    rounds = []

    def moved(properties):
        return changed(
            properties, lambda: rounds.append(1), dest_queue="t", dest_add_forward_headers=True
        )

    once = moved(before)
    assert rounds == []
    moved(once)
    assert rounds == [1]


def test_a_header_of_another_type_is_replaced():
    headers = {"x-shovelled": ("S", "mine"), "other": ("t", True)}
    found = changed({"headers": headers}, dest_add_forward_headers=True)["headers"]
    assert found["x-shovelled"][0] == "A"
    assert found["other"] == ("t", True)


def test_the_time_is_in_seconds():
    found = changed({}, dest_add_timestamp_header=True)
    assert found["headers"] == {"x-shovelled-timestamp": ("l", int(NOW_S))}


def test_the_header_has_the_name_that_the_cluster_has_now():
    definition = parse_shovel("s", ENDS | {"dest-add-forward-headers": True})
    name = ["hares"]

    def facts():
        return facts_of("s", "/", name[0], ("amqp://one", "amqp://two"), definition)

    change = readdress_of(definition, facts, lambda: NOW_S, nobody_asks).change
    delivery = SimpleNamespace(properties=encode_properties({}))
    told = []
    for name[0] in ("hares", "rabbits"):
        ((_, entry),) = decode_properties(change(delivery))["headers"]["x-shovelled"][1]
        told.append(entry["shovelled-by"])
    assert told == [("S", "hares"), ("S", "rabbits")]


def test_a_static_shovel_says_in_the_header_that_it_is_one():
    shovel = parse_shovel("s", ENDS)
    assert facts_of("s", None, "c", ("amqp://one", "amqp://two"), shovel) == {
        "shovelled-by": "c", "shovel-type": "static", "shovel-name": "s",
        "src-uri": "amqp://one", "dest-uri": "amqp://two",
    }  # fmt: skip


def test_the_queue_that_a_static_shovel_names_by_the_default_exchange_has_to_be_there():
    given = {"dest-exchange": "", "dest-exchange-key": "q"}
    assert readdress_of(parse_shovel("s", ENDS | given), dict, lambda: NOW_S, nobody_asks).mandatory
    given = {"dest-exchange": ""}
    assert not readdress_of(
        parse_shovel("s", ENDS | given), dict, lambda: NOW_S, lambda: None
    ).mandatory


def test_what_may_be_a_copy_is_marked():
    asked = {"dest_queue": "t", "dest_add_source_headers": True}
    assert changed({"type": "t"}, **asked) == {"type": "t"}
    assert changed({"type": "t"}, redelivered=True, **asked) == {
        "type": "t", "headers": {"x-source-redelivered": ("t", True)},
    }  # fmt: skip
    of_stream = {"headers": {"x-stream-offset": ("l", 7), "n": ("I", 1)}}
    assert changed(of_stream, **asked) == {
        "headers": {"n": ("I", 1), "x-source-offset": ("l", 7)}
    }  # fmt: skip
