"""Records are made of classes with slots, and the garbage collector does not track them."""

import gc
import sys
from types import ModuleType

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.sessions.unacked_record import Unacked
from leveret.records import use_structs
from leveret.storage.messages.message import Address, Entry, Message

INTERPRETED = '''
class Pair:
    """Two things."""

    __slots__ = ("first", "second")

    def __init__(self, first, second=()):
        self.first = first
        self.second = second

    @property
    def both(self):
        return self.first, self.second
'''


@pytest.fixture
def module():
    made = ModuleType("module_of_pairs")
    sys.modules[made.__name__] = made
    exec(INTERPRETED, vars(made))
    yield made
    del sys.modules[made.__name__]


def test_an_interpreted_record_keeps_its_fields_and_methods_and_is_not_tracked(module):
    with_slots = module.Pair
    use_structs(module.__name__, with_slots)
    assert module.Pair is not with_slots
    pair = module.Pair([1], second=[2])
    assert pair.both == ([1], [2])
    pair.first = 3
    assert pair.both == (3, [2])
    assert module.Pair(1).second == ()
    assert module.Pair(1) != module.Pair(1)
    assert gc.is_tracked(with_slots([1]))
    assert not gc.is_tracked(pair)


def test_the_objects_of_each_message_are_not_tracked():
    header = read_header(b"\0\0")
    entry = Entry(Message(Address("", "q", b"\0\1q"), header, b"body"), 1)
    for record in (header, entry.message, entry, Unacked(entry, None, None, 0)):
        assert not gc.is_tracked(record)
