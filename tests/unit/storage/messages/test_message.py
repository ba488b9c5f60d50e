"""Messages and entries: what they hold when nothing else is given, and what they cost."""

import gc
import sys

from leveret.storage.messages.message import ENTRY_BYTES, Address, Entry, Message, StoredBody
from tests.unit.storage.fakes import ADDRESS, PERSISTENT_HEADER


def test_a_message_begins_without_a_number_and_without_a_stored_body():
    message = Message(ADDRESS, PERSISTENT_HEADER, b"body")
    assert (message.number, message.stored) == (0, None)


def test_an_entry_begins_not_redelivered_and_without_expiry():
    entry = Entry(Message(ADDRESS, PERSISTENT_HEADER, b"body"), 3)
    assert (entry.position, entry.redelivered, entry.expires_at_ms) == (3, False, 0)


def test_one_message_is_shared_by_the_entries_of_several_queues():
    message = Message(ADDRESS, PERSISTENT_HEADER, b"body")
    first, second = Entry(message, 0), Entry(message, 8)
    message.stored = StoredBody(number=1, offset=40, size=4, crc=0)
    assert first.message.stored is second.message.stored


def test_the_garbage_collector_does_not_track_messages_and_entries():
    message = Message(ADDRESS, PERSISTENT_HEADER, b"body")
    assert not gc.is_tracked(message)
    assert not gc.is_tracked(Entry(message, 0))


def test_entry_bytes_covers_an_entry_and_its_message():
    message = Message(ADDRESS, PERSISTENT_HEADER, b"")
    assert sys.getsizeof(message) + sys.getsizeof(Entry(message, 0)) <= ENTRY_BYTES


def test_an_address_keeps_the_encoded_form_it_was_given():
    address = Address("x", "key", b"\1x\3key")
    assert (address.exchange, address.routing_key, address.encoded) == ("x", "key", b"\1x\3key")
