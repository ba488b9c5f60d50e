"""x-death, and the detection of cycles."""

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import make_header, read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.dead_letters.header import (
    EXPIRED,
    MAXLEN,
    REJECTED,
    DeathNotes,
    cc_keys,
    queues_in_cycle,
)
from leveret.storage.messages.message import Address

NOW_S = 1_700_000_000


def address(exchange, key):
    return Address(exchange, key, encode_address(exchange, key))


ORDERS = address("shop", "order")


def header(**properties):
    return read_header(encode_properties(properties))


def noted(message, queue, reason, where=ORDERS, drop_cc=False, at_s=NOW_S):
    """Return the header after a death, and the record."""
    return DeathNotes(queue, reason, at_s, drop_cc, tells_last=False).add(message, where)


def died(*death, **options):
    """Return the header after a death."""
    return noted(*death, **options)[0]


def deaths(message):
    """Return queue, reason and count of each death, the latest first."""
    letter, entries = message.headers["x-death"]
    assert letter == "A"
    return [
        (death["queue"][1], death["reason"][1], death["count"][1])
        for letter, death in entries
        if letter == "F"
    ]


def test_the_first_death():
    dead = died(header(delivery_mode=2), "orders", REJECTED)
    assert dead.headers == {
        "x-first-death-reason": ("S", "rejected"),
        "x-first-death-queue": ("S", "orders"),
        "x-first-death-exchange": ("S", "shop"),
        "x-death": ("A", [("F", {
            "count": ("l", 1),
            "reason": ("S", "rejected"),
            "queue": ("S", "orders"),
            "time": ("T", NOW_S),
            "exchange": ("S", "shop"),
            "routing-keys": ("A", [("S", "order")]),
        })]),
    }  # fmt: skip
    assert dead.is_persistent


def test_the_names_in_a_death_are_in_rabbitmqs_order():
    ((_, death),) = died(header(), "orders", EXPIRED).headers["x-death"][1]
    assert list(death) == ["count", "reason", "queue", "time", "exchange", "routing-keys"]


def test_other_headers_and_properties_stay():
    message = header(headers={"a": ("s", 1)}, correlation_id="c", priority=7)
    dead = died(message, "orders", MAXLEN)
    assert dead.headers["a"] == ("s", 1)
    assert dead.properties["correlation_id"] == "c"
    assert dead.priority == 7
    assert message.headers == {"a": ("s", 1)}


def test_an_expiration_is_taken_away_and_remembered():
    dead = died(header(expiration="500"), "orders", EXPIRED)
    assert "expiration" not in dead.properties
    ((_, death),) = dead.headers["x-death"][1]
    assert death["original-expiration"] == ("S", "500")


def test_deaths_for_several_reasons_are_listed_and_the_latest_comes_first():
    message = header()
    for queue, reason in (("a", REJECTED), ("b", EXPIRED), ("a", EXPIRED)):
        message = died(message, queue, reason)
    assert deaths(message) == [("a", "expired", 1), ("a", "rejected", 1), ("b", "expired", 1)]
    assert message.headers["x-first-death-queue"] == ("S", "a")
    assert message.headers["x-first-death-reason"] == ("S", "rejected")


def test_another_death_of_the_same_kind_counts_and_comes_first():
    message = header()
    for queue in ("a", "b", "a", "b", "b"):
        message = died(message, queue, EXPIRED)
    assert deaths(message) == [("b", "expired", 3), ("a", "expired", 2)]


def test_a_death_that_is_counted_keeps_its_first_details():
    first = died(header(expiration="5"), "a", EXPIRED)
    second = died(first, "a", EXPIRED, address("", "a"), at_s=NOW_S + 60)
    ((_, death),) = second.headers["x-death"][1]
    assert death["count"] == ("l", 2)
    assert death["time"] == ("T", NOW_S)
    assert death["exchange"] == ("S", "shop")
    assert death["original-expiration"] == ("S", "5")


def test_a_clients_x_death_that_is_no_list_is_replaced():
    dead = died(header(headers={"x-death": ("S", "mine")}), "a", EXPIRED)
    assert deaths(dead) == [("a", "expired", 1)]


def test_a_clients_odd_deaths_are_carried_along():
    odd = ("A", [("S", "mine"), ("F", {"queue": ("S", "a"), "reason": ("S", "expired")})])
    dead = died(header(headers={"x-death": odd}), "a", EXPIRED)
    assert deaths(dead) == [("a", "expired", 2)]
    assert dead.headers["x-death"][1][1] == ("S", "mine")


def test_deaths_with_values_of_any_type_are_carried_along():
    table, array = ("F", {"x": ("I", 1)}), ("A", [("I", 1)])
    odd = [("F", {"queue": table, "reason": array}), ("F", {"queue": table, "reason": array})]
    dead = died(header(headers={"x-death": ("A", odd)}), "a", EXPIRED)
    _, other = dead.headers["x-death"][1]
    assert other == ("F", {"queue": table, "reason": array, "count": ("l", 2)})


CC = ("A", [("S", "copy"), ("I", 5), ("S", "another")])


def test_cc_keys_are_part_of_the_address():
    dead = died(header(headers={"CC": CC}), "a", REJECTED)
    ((_, death),) = dead.headers["x-death"][1]
    keys = [("S", "order"), ("S", "copy"), ("S", "another")]
    assert death["routing-keys"] == ("A", keys)
    assert dead.headers["CC"] == CC


def test_cc_goes_when_dead_letters_get_a_key_of_their_own():
    dead = died(header(headers={"CC": CC}), "a", REJECTED, drop_cc=True)
    assert "CC" not in dead.headers
    assert len(dead.headers["x-death"][1][0][1]["routing-keys"][1]) == 3
    assert "CC" not in died(header(), "a", REJECTED, drop_cc=True).headers


@pytest.mark.parametrize(
    ("headers", "keys"),
    [({}, []), ({"CC": ("S", "copy")}, []), ({"CC": CC}, ["copy", "another"])],
)
def test_cc_keys(headers, keys):
    assert cc_keys(headers) == keys


def after(*the_deaths):
    """Return a message that was dead-lettered in these queues, for these reasons, in this order."""
    message = header()
    for queue, reason in the_deaths:
        message = died(message, queue, reason)
    return message


def test_a_message_that_has_not_died_is_in_no_cycle():
    assert "a" not in queues_in_cycle({})


def test_a_message_that_comes_back_by_itself_is_in_a_cycle():
    message = after(("a", EXPIRED), ("b", MAXLEN))
    assert "a" in queues_in_cycle(message.headers)
    assert "b" in queues_in_cycle(message.headers)
    assert "c" not in queues_in_cycle(message.headers)


def test_a_client_that_rejected_it_on_the_way_breaks_the_cycle():
    message = after(("a", EXPIRED), ("b", REJECTED))
    assert "a" not in queues_in_cycle(message.headers)
    assert "b" not in queues_in_cycle(message.headers)


def test_a_rejection_before_the_message_was_in_the_queue_does_not():
    message = after(("b", REJECTED), ("a", EXPIRED))
    assert "a" in queues_in_cycle(message.headers)


@pytest.mark.parametrize(
    "x_death",
    [
        ("S", "a"),
        ("A", [("S", "a"), ("F", {"queue": ("S", "a"), "reason": ("S", "expired")})]),
        ("A", [("F", {"queue": ("x", b"a"), "reason": ("S", "expired")})]),
        ("A", []),
    ],
)
def test_an_x_death_that_a_client_made_up_is_no_sign_of_a_cycle(x_death):
    assert "a" not in queues_in_cycle({"x-death": x_death})


def test_one_record_is_written_for_all_messages_with_the_same_deaths():
    notes = DeathNotes("a", EXPIRED, NOW_S, drop_cc=False, tells_last=False)
    fresh = [header(headers={"number": ("l", number)}) for number in range(3)]
    before = [died(one, "b", REJECTED) for one in fresh]
    first, second, third, *others = [notes.add(one, ORDERS) for one in (*before, *fresh)]
    assert first[1] is second[1] is third[1]
    assert others[0][1] is others[1][1] is not first[1]
    assert deaths(third[0]) == [("a", "expired", 1), ("b", "rejected", 1)]
    assert [dead.headers["number"][1] for dead, _ in (first, second, third)] == [0, 1, 2]


def test_the_keys_of_a_blind_copy_stay_unless_the_queue_sets_the_key():
    message = make_header({"headers": {"a": ("I", 1)}}, ["hidden"])
    kept = died(message, "a", REJECTED)
    assert list(kept.bcc_keys) == ["hidden"]
    assert kept.stored != kept.raw
    dropped = died(message, "a", REJECTED, drop_cc=True)
    assert not dropped.bcc_keys
    assert dropped.stored == dropped.raw == kept.raw
