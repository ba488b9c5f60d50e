"""What the messages say that a federated exchange gets, and which of them go no further."""

from types import SimpleNamespace

import pytest

from leveret.broker.amqp.properties import decode_properties, encode_properties
from leveret.broker.moving.federation.exchange_headers import ExchangeHeaders


def changed(max_hops=1, trusts_user_id=False, upstream_cluster="up", redelivered=False, **came):
    change = ExchangeHeaders(
        "amqp://up", "x", upstream_cluster, "/", "here", "/", max_hops, trusts_user_id
    )
    delivery = SimpleNamespace(properties=encode_properties(came), redelivered=redelivered)
    raw = change(delivery)
    return None if raw is None else decode_properties(raw)


def place(cluster, redelivered=False):
    return "F", {
        "uri": ("S", "amqp://up"), "exchange": ("S", "x"), "redelivered": ("t", redelivered),
        "cluster-name": ("S", cluster), "vhost": ("S", "/"),
    }  # fmt: skip


def received_from(*places):
    return {"x-received-from": ("A", list(places))}


def test_a_message_says_where_it_comes_from():
    got = changed(message_id="m", headers={"a": ("I", 1)}, redelivered=True)
    assert got == {
        "message_id": "m", "headers": {"a": ("I", 1), **received_from(place("up", True))}
    }  # fmt: skip
    names = list(got["headers"]["x-received-from"][1][0][1])
    assert names == ["uri", "exchange", "redelivered", "cluster-name", "vhost"]


def test_the_newest_place_comes_first():
    got = changed(max_hops=2, headers=received_from(place("far")))
    assert got["headers"] == received_from(place("up"), place("far"))


@pytest.mark.parametrize(
    ("max_hops", "places", "is_dropped"),
    [(1, ["far"], True), (2, ["far"], False), (2, ["far", "farther"], True), (5, ["here"], True)],
)
def test_a_message_goes_neither_too_far_nor_round(max_hops, places, is_dropped):
    got = changed(max_hops=max_hops, headers=received_from(*map(place, places)))
    assert (got is None) is is_dropped


def test_an_upstream_may_have_no_name():
    got = changed(upstream_cluster=None)
    assert "cluster-name" not in got["headers"]["x-received-from"][1][0][1]


def test_a_header_of_another_kind_is_kept_elsewhere():
    got = changed(headers={"x-received-from": ("S", "me")})
    assert got["headers"] == {
        "x-invalid-headers": ("F", {"x-received-from": ("A", [("S", "me")])}),
        **received_from(place("up")),
    }


def test_the_user_id_is_left_out_unless_the_upstream_is_trusted():
    assert "user_id" not in changed(user_id="guest")
    assert changed(user_id="guest", trusts_user_id=True)["user_id"] == "guest"
