"""Addresses that are read back are shared."""

from leveret.storage.messages import addresses
from leveret.storage.messages.addresses import Addresses


def encoded(exchange, key):
    return bytes((len(exchange),)) + exchange + bytes((len(key),)) + key


def test_an_address_is_decoded_once():
    cache = Addresses()
    address = cache.find(encoded(b"logs", b"a.b"))
    assert (address.exchange, address.routing_key) == ("logs", "a.b")
    assert cache.find(encoded(b"logs", b"a.b")) is address


def test_bytes_that_are_not_utf_8_are_kept():
    address = Addresses().find(encoded(b"", b"\xff"))
    assert address.routing_key.encode("utf-8", "surrogateescape") == b"\xff"


def test_a_full_cache_is_emptied(monkeypatch):
    monkeypatch.setattr(addresses, "ADDRESSES_MAX", 2)
    cache = Addresses()
    first = cache.find(encoded(b"", b"1"))
    for key in (b"2", b"3"):
        cache.find(encoded(b"", key))
    again = cache.find(encoded(b"", b"1"))
    assert again is not first
    assert again.encoded == first.encoded
