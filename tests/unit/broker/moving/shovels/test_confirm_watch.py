"""An operator is told once when a destination does not confirm, and when it does again."""

from types import SimpleNamespace

from leveret.broker.moving.shovels.confirm_watch import LOOK_MS, ConfirmWatch
from leveret.broker.runtime.virtual_clock import VirtualClock

LOOK_SECONDS = LOOK_MS / 1000


class Watching:
    """A watch over a transfer whose oldest unconfirmed message a test sets. told: what it said."""

    def __init__(self):
        self.clock, self.told = VirtualClock(), []
        self.transfer = SimpleNamespace(oldest_unconfirmed=None, unconfirmed=0)
        self.watch = ConfirmWatch(self.transfer, self.clock, self.told.append)

    def look(self, oldest):
        """The watch looks, and this is the oldest message that is not confirmed."""
        self.transfer.oldest_unconfirmed, self.transfer.unconfirmed = oldest, 5
        self.clock.advance(LOOK_SECONDS)


def test_a_destination_that_confirms_is_not_named():
    it = Watching()
    for oldest in (None, 5, 9, None, 12):
        it.look(oldest)
    assert it.told == []


def test_one_that_does_not_confirm_is_named_once_until_it_does():
    it = Watching()
    for oldest in (7, 7, 7):
        it.look(oldest)
    problem = "the destination has not confirmed a message for 60 s or more: 5 wait for it"
    assert it.told == [problem]
    it.look(8)
    assert it.told == [problem, ""]
    it.look(8)
    assert it.told == [problem, "", problem]


def test_it_does_not_look_after_the_end():
    it = Watching()
    it.look(7)
    it.watch.stop()
    it.look(7)
    assert it.told == []
