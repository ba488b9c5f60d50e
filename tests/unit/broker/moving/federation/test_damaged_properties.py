"""Properties that are damaged, as a foreign upstream may send them, or odd, as a client may."""

import random

import pytest

from leveret.broker.amqp.properties import encode_properties, scan
from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.broker.moving.federation.exchange_headers import ExchangeHeaders
from leveret.broker.moving.federation.queue_headers import QueueHeaders
from tests.fuzz.mutation import mutated

PLACE = "F", {
    "uri": ("S", "amqp://up"), "exchange": ("S", "x"), "queue": ("S", "q"),
    "cluster-name": ("S", "up"), "vhost": ("S", "/"), "visit-count": ("l", 3),
}  # fmt: skip
WHOLE = [
    encode_properties(one)
    for one in (
        {"message_id": "m", "timestamp": 5},
        {"headers": {"a": ("S", "b")}, "user_id": "guest", "delivery_mode": 2},
        {"headers": {"CC": ("A", [("S", "k")]), "x-received-from": ("A", [PLACE, PLACE])}},
        {"headers": {"x-received-from": ("S", "me"), "x-invalid-headers": ("F", {"a": PLACE})}},
    )
]
LINKS = [
    lambda trusts: ExchangeHeaders("amqp://up", "x", "up", "/", "here", "/", 5, trusts),
    lambda trusts: QueueHeaders("amqp://up", "q", trusts),
]


@pytest.mark.parametrize("link", LINKS, ids=["exchange", "queue"])
@pytest.mark.parametrize("seed", range(3))
def test_a_message_can_be_published_is_dropped_or_is_refused_with_a_reason(link, seed):
    chance = random.Random(seed)
    changes = [link(trusts) for trusts in (False, True)]
    reasons = []
    for number in range(5000):
        raw = mutated(chance, WHOLE[number % len(WHOLE)], WHOLE[-2])
        for change in changes:
            try:
                after = change(ClientDelivery(1, False, "x", "k", raw, b""))
            except ValueError as error:
                reasons.append(str(error))
            else:
                assert after is None or scan(after)
    assert reasons
    assert all(reasons)


@pytest.mark.parametrize("link", LINKS, ids=["exchange", "queue"])
@pytest.mark.parametrize("raw", [b"", b"\x20", b"\x20\0\0\0\0\x05", b"\0\1", b"\0\x80\x05m"])
def test_properties_that_are_cut_off_are_refused(link, raw):
    with pytest.raises(ValueError, match=r"."):
        link(False)(ClientDelivery(1, False, "x", "k", raw, b""))
