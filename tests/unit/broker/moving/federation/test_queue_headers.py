"""The properties of messages that a federated queue gets from its upstream."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.amqp.properties import decode_properties, encode_properties
from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.broker.moving.federation.queue_headers import VISITS_MAX, QueueHeaders

URI = "amqp://upstream:5672/vhost"


def moved(properties=None, *, exchange="x", key="k", redelivered=False, uri=URI, trusts=False):
    """The properties of a message after a link has moved it."""
    raw = encode_properties(properties or {})
    delivery = ClientDelivery(1, redelivered, exchange, key, raw, b"body")
    return decode_properties(QueueHeaders(uri, "q", trusts)(delivery))


def place(uri=URI, redelivered=False, visits=1):
    return (
        "F",
        {
            "uri": ("S", uri), "queue": ("S", "q"), "redelivered": ("t", redelivered),
            "visit-count": ("l", visits),
        },
    )  # fmt: skip


def test_they_say_from_where_a_message_came_and_how_it_was_published():
    assert moved() == {
        "headers": {
            "x-original-exchange": ("S", "x"),
            "x-original-routing-key": ("S", "k"),
            "x-received-from": ("A", [place()]),
        }
    }


def test_all_other_properties_stay():
    before = {
        "content_type": "text/plain", "content_encoding": "gzip",
        "headers": {"a": ("S", "b"), "n": ("I", 1)}, "delivery_mode": 2, "priority": 3,
        "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m",
        "timestamp": 1, "type": "t", "app_id": "a", "cluster_id": "c",
    }  # fmt: skip
    after = moved(before)
    headers = after.pop("headers")
    assert after == {name: value for name, value in before.items() if name != "headers"}
    assert list(headers) == [
        "a", "n", "x-original-exchange", "x-original-routing-key", "x-received-from",
    ]  # fmt: skip


def test_a_redelivered_message_says_so():
    assert moved(redelivered=True)["headers"]["x-received-from"] == ("A", [place(redelivered=True)])


def test_how_it_was_published_is_said_the_first_time_only():
    once = moved(exchange="x", key="k")
    twice = moved(once, exchange="", key="q", uri="amqp://other")
    headers = twice["headers"]
    assert headers["x-original-exchange"] == ("S", "x")
    assert headers["x-original-routing-key"] == ("S", "k")
    assert headers["x-received-from"] == ("A", [place("amqp://other"), place()])


def test_visits_of_a_place_are_counted():
    properties = moved()
    for uri in ("amqp://other", URI, URI):
        properties = moved(properties, uri=uri)
    assert properties["headers"]["x-received-from"] == (
        "A", [place(visits=3), place("amqp://other")],
    )  # fmt: skip


def test_places_of_exchange_federation_are_kept():
    others = [("F", {"uri": ("S", URI), "exchange": ("S", "q")}), ("S", "odd")]
    after = moved({"headers": {"x-received-from": ("A", others)}})
    assert after["headers"] == {"x-received-from": ("A", [place(), *others])}


def test_recipients_are_not_routed_to_again():
    recipients = ("A", [("S", "other")])
    headers = moved({"headers": {"CC": recipients}})["headers"]
    assert headers["x-original-cc"] == recipients
    assert "CC" not in headers


def test_the_user_is_only_known_of_a_trusted_upstream():
    assert "user_id" not in moved({"user_id": "joe"})
    assert moved({"user_id": "joe"}, trusts=True)["user_id"] == "joe"


@pytest.mark.parametrize("count", [("S", "many"), ("t", True), ("l", 2**63 - 1), ("l", -(2**63))])
def test_a_count_that_a_client_has_set_does_no_harm(count):
    kind, table = place()
    been = (kind, {**table, "visit-count": count})
    after = moved({"headers": {"x-received-from": ("A", [been])}})
    (_, newest), = after["headers"]["x-received-from"][1]  # fmt: skip
    assert newest["visit-count"][1] <= VISITS_MAX + 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"x-received-from": ("A", [("S", "joe")])}),
        (
            {"x-invalid-headers": ("F", {"x-received-from": ("A", [("S", "ann")])})},
            {"x-received-from": ("A", [("S", "joe"), ("S", "ann")])},
        ),
        (
            {"x-invalid-headers": ("S", "odd")},
            {
                "x-invalid-headers": ("A", [("S", "odd")]),
                "x-received-from": ("A", [("S", "joe")]),
            },
        ),
    ],
)
def test_a_header_of_another_type_is_kept_as_an_invalid_one(before, after):
    headers = moved({"headers": {"x-received-from": ("S", "joe"), **before}})["headers"]
    assert headers["x-received-from"] == ("A", [place()])
    assert headers["x-original-exchange"] == ("S", "x")
    assert headers["x-invalid-headers"] == ("F", after)


def test_messages_of_many_keys_have_their_own():
    headers = QueueHeaders(URI, "q", False)
    for number in range(200):
        delivery = ClientDelivery(1, False, "x", f"k{number}", b"\0\0", b"body")
        found = decode_properties(headers(delivery))["headers"]
        assert found["x-original-routing-key"] == ("S", f"k{number}")


texts = st.text(st.characters(codec="utf-8"), max_size=5)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(texts, st.tuples(st.just("S"), texts), max_size=3), texts)
def test_headers_are_the_same_whether_they_were_decoded_or_not(before, user):
    # A user id has the properties decoded.
    plain = {"headers": before} if before else {}
    decoded = moved({**plain, "user_id": user})
    assert moved(plain) == decoded
