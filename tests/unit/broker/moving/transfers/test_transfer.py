"""What a transfer publishes, and what it acknowledges when."""

from types import SimpleNamespace

import pytest

from leveret.broker.moving.transfers import transfer
from leveret.broker.moving.transfers.transfer import REFUSED_MS, MessageTransfer, Readdress
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM, ON_PUBLISH
from leveret.broker.runtime.virtual_clock import VirtualClock


class Source:
    """The channel on which deliveries come. said: what it was told. unsettled: tags."""

    def __init__(self):
        self.said = []
        self.unsettled = []

    def deliver(self, *tags):
        self.unsettled += tags
        return [
            SimpleNamespace(
                tag=tag, exchange="from", routing_key="key", properties=b"p", body=b"%d" % tag
            )
            for tag in tags
        ]

    def ack(self, tag, multiple):
        self.said.append(("ack", self._settle(tag, multiple)))

    def nack(self, tag, multiple, requeue):
        assert requeue
        self.said.append(("nack", self._settle(tag, multiple)))

    def _settle(self, tag, multiple):
        settled = [one for one in self.unsettled if one == tag or (multiple and one < tag)]
        assert tag in settled, "TR2"
        self.unsettled = [one for one in self.unsettled if one not in settled]
        return settled


class Destination:
    """The channel on which messages are published. room: how many more it takes."""

    def __init__(self):
        self.published = []
        self.mandatory = []
        self.too_long = []
        self.room = 1000

    @property
    def is_writable(self):
        return self.room > 0

    def publish(self, exchange, routing_key, properties, body, mandatory):
        if body in self.too_long:
            raise ValueError("it is too long")
        self.published.append((exchange, routing_key, properties, body))
        self.mandatory.append(mandatory)
        self.room -= 1
        return len(self.published)

    @property
    def bodies(self):
        return [int(body) for *_, body in self.published]


class Shoveling:
    """A transfer between both. ended: how often it said so. is_reading: whether the source does."""

    def __init__(self, ack_mode=ON_CONFIRM, limit=None, readdress=None):
        self.source, self.destination = Source(), Destination()
        self.clock = VirtualClock()
        self.ended = 0
        self.is_reading = True
        self.transfer = MessageTransfer(
            self.source, self.destination, ack_mode, readdress or Readdress(), limit,
            self._end, self._set_reading, self.clock.call_later_ms,
        )  # fmt: skip

    def _end(self):
        self.ended += 1

    def _set_reading(self, is_reading):
        self.is_reading = is_reading

    def deliver(self, *tags):
        self.transfer.take(self.source.deliver(*tags))


def test_a_message_is_acknowledged_when_it_is_confirmed():
    it = Shoveling()
    it.deliver(1, 2, 3)
    assert it.source.said == []
    it.transfer.confirmed(2, False, True)
    it.transfer.confirmed(3, True, True)
    assert it.source.said == [("ack", [2]), ("ack", [1, 3])]
    assert it.transfer.forwarded == 3


def test_the_oldest_message_that_is_not_confirmed_is_known():
    it = Shoveling()
    assert (it.transfer.oldest_unconfirmed, it.transfer.unconfirmed) == (None, 0)
    it.deliver(1, 2, 3)
    it.transfer.confirmed(2, False, True)
    assert (it.transfer.oldest_unconfirmed, it.transfer.unconfirmed) == (1, 2)
    it.transfer.confirmed(1, False, False)
    assert (it.transfer.oldest_unconfirmed, it.transfer.unconfirmed) == (3, 1)


def test_nothing_is_changed_unless_it_is_asked_for():
    it = Shoveling()
    it.deliver(1)
    assert it.destination.published == [("from", "key", b"p", b"1")]


def test_messages_get_another_address_and_other_properties():
    it = Shoveling(readdress=Readdress("", "queue", lambda delivery: delivery.properties + b"q"))
    it.deliver(1)
    assert it.destination.published == [("", "queue", b"pq", b"1")]


@pytest.mark.parametrize(
    ("ack_mode", "said"),
    [(ON_CONFIRM, [("ack", [2])]), (ON_PUBLISH, [("ack", [1, 2, 3])]), (NO_ACK, [])],
)
def test_a_message_that_is_dropped_is_acknowledged(ack_mode, said):
    drops_second = Readdress(change=lambda delivery: None if delivery.tag == 2 else b"")
    it = Shoveling(ack_mode, readdress=drops_second)
    it.deliver(1, 2, 3)
    assert (it.destination.bodies, it.transfer.forwarded) == ([1, 3], 2)
    assert it.source.said == said
    it.transfer.confirmed(2, True, True)
    assert it.source.unsettled == ([] if ack_mode != NO_ACK else [1, 2, 3])


@pytest.mark.parametrize("ack_mode", [ON_CONFIRM, ON_PUBLISH, NO_ACK])
def test_a_message_that_is_dropped_counts_as_moved(ack_mode):
    it = Shoveling(ack_mode, limit=2, readdress=Readdress(change=lambda delivery: None))
    it.deliver(1, 2)
    assert (it.ended, it.destination.bodies) == (1, [])


def test_a_run_is_acknowledged_when_it_is_published():
    it = Shoveling(ON_PUBLISH)
    it.deliver(1, 2)
    it.deliver(3)
    assert it.source.said == [("ack", [1, 2]), ("ack", [3])]


def test_nothing_is_acknowledged_without_acknowledgements():
    it = Shoveling(NO_ACK)
    it.deliver(1, 2)
    assert (it.source.said, it.destination.bodies) == ([], [1, 2])


def test_a_refused_message_goes_back_to_its_queue_after_a_while():
    it = Shoveling()
    it.deliver(1, 2, 3)
    it.transfer.confirmed(1, False, False)
    it.transfer.confirmed(3, True, True)
    assert it.source.said == [("ack", [2]), ("ack", [3])]
    it.clock.advance(REFUSED_MS)
    assert it.source.said[2:] == [("nack", [1])]


def test_a_confirm_of_nothing_is_ignored():
    it = Shoveling()
    it.transfer.confirmed(7, True, True)
    it.transfer.confirmed(7, False, False)
    assert it.source.said == []


@pytest.mark.parametrize("ack_mode", [ON_CONFIRM, ON_PUBLISH, NO_ACK])
def test_messages_wait_in_order_while_the_destination_takes_no_more(ack_mode):
    it = Shoveling(ack_mode)
    it.destination.room = 0
    it.deliver(1, 2)
    it.destination.room = 1000
    it.deliver(3)
    assert (it.destination.bodies, it.transfer.pending) == ([], 3)
    it.transfer.go_on()
    assert (it.destination.bodies, it.transfer.pending) == ([1, 2, 3], 0)


def test_a_source_without_acknowledgements_is_paused_meanwhile():
    it = Shoveling(NO_ACK)
    it.destination.room = 0
    it.deliver(1)
    assert not it.is_reading
    it.destination.room = 10
    it.transfer.go_on()
    assert it.is_reading


def test_it_ends_after_a_number_of_messages():
    it = Shoveling(limit=3)
    it.deliver(1, 2, 3, 4, 5)
    assert it.destination.bodies == [1, 2, 3]
    assert (it.transfer.remaining, it.transfer.remaining_unacked) == (3, 0)
    it.transfer.confirmed(2, True, True)
    assert it.ended == 0
    it.transfer.confirmed(3, False, True)
    assert it.ended == 1
    assert it.source.unsettled == [4, 5]


def test_a_refused_message_is_tried_again_before_it_ends():
    it = Shoveling(limit=1)
    it.deliver(1)
    it.transfer.confirmed(1, False, False)
    it.clock.advance(REFUSED_MS)
    it.deliver(2)
    it.transfer.confirmed(2, False, True)
    assert (it.destination.bodies, it.ended) == ([1, 2], 1)


def test_it_ends_when_the_number_is_published_if_nothing_is_confirmed():
    it = Shoveling(ON_PUBLISH, limit=2)
    it.deliver(1, 2, 3)
    assert (it.ended, it.source.unsettled) == (1, [3])


def test_a_confirm_of_many_settles_nothing_beyond_the_end():
    it = Shoveling(limit=2)
    it.deliver(1, 2, 3, 4)
    it.transfer.confirmed(1, False, True)
    it.transfer.confirmed(2, False, False)
    it.clock.advance(REFUSED_MS)
    it.deliver(5)
    it.transfer.confirmed(3, True, True)
    assert (it.destination.bodies, it.ended) == ([1, 2, 5], 1)
    assert it.source.unsettled == [3, 4], "they were not published"


def test_messages_for_a_queue_are_to_be_returned_if_it_is_gone():
    it = Shoveling(readdress=Readdress("", "queue", mandatory=True))
    it.deliver(1)
    assert it.destination.mandatory == [True]


def test_nothing_is_settled_after_a_return():
    it = Shoveling()
    it.deliver(1, 2)
    it.transfer.confirmed(1, False, False)
    it.transfer.halt()
    it.transfer.confirmed(2, False, True)
    it.deliver(3)
    it.transfer.go_on()
    it.clock.advance(REFUSED_MS)
    assert (it.source.said, it.destination.bodies) == ([], [1, 2])
    assert it.transfer.is_settled


@pytest.mark.parametrize(
    ("ack_mode", "acked"), [(ON_CONFIRM, []), (ON_PUBLISH, [("ack", [1, 2])]), (NO_ACK, [])]
)
def test_a_message_that_cannot_be_published_ends_the_publishing(ack_mode, acked):
    it = Shoveling(ack_mode, limit=10)
    told = []
    it.transfer.on_unpublishable = told.append
    it.destination.too_long.append(b"3")
    it.deliver(1, 2, 3, 4)
    it.deliver(5)
    it.transfer.go_on()
    assert (it.destination.bodies, told) == ([1, 2], ["it is too long"])
    assert (it.source.said, it.transfer.remaining_unacked) == (acked, 8)


def test_messages_before_one_that_cannot_be_published_are_settled():
    it = Shoveling()
    it.destination.too_long.append(b"3")
    it.destination.room = 0
    it.deliver(1, 2, 3, 4)
    it.destination.room = 1000
    it.transfer.go_on()
    assert not it.transfer.is_settled
    it.transfer.confirmed(2, True, True)
    assert it.source.said == [("ack", [1, 2])]
    assert it.source.unsettled == [3, 4]
    assert it.transfer.is_settled


@pytest.mark.parametrize("ack_mode", [ON_CONFIRM, ON_PUBLISH, NO_ACK])
def test_a_message_that_cannot_be_published_may_be_left_out_and_goes_back_later(ack_mode):
    it = Shoveling(ack_mode)
    told = []
    it.transfer.leaves_out, it.transfer.on_unpublishable = True, told.append
    it.destination.too_long += [b"2", b"3", b"5"]
    it.deliver(1, 2, 3, 4, 5)
    it.deliver(6)
    for number in (1, 2, 3) if ack_mode == ON_CONFIRM else ():
        it.transfer.confirmed(number, True, True)
    assert (it.destination.bodies, it.transfer.forwarded) == ([1, 4, 6], 3)
    assert told == ["it is too long"] * 3
    if ack_mode != NO_ACK:
        assert it.source.unsettled == [2, 3, 5]
        it.clock.advance(REFUSED_MS)
        assert it.source.said[-3:] == [("nack", [2]), ("nack", [3]), ("nack", [5])]
    else:
        it.clock.advance(REFUSED_MS)
        assert it.source.said == []


@pytest.mark.parametrize("ack_mode", [ON_CONFIRM, ON_PUBLISH])
def test_waiting_messages_go_back_when_the_demand_ends(ack_mode):
    it = Shoveling(ack_mode)
    it.destination.room = 2
    it.deliver(1, 2)
    it.deliver(3, 4)
    it.transfer.give_back_waiting()
    assert it.source.said[-2:] == [("nack", [3]), ("nack", [4])]
    assert it.transfer.pending == 0
    it.destination.room = 2
    it.deliver(5)
    it.transfer.confirmed(3, True, True)
    assert it.destination.bodies == [1, 2, 5]
    assert it.source.unsettled == []


def test_without_acknowledgements_messages_that_wait_cannot_go_back():
    it = Shoveling(NO_ACK)
    it.destination.room = 0
    it.deliver(1)
    it.transfer.give_back_waiting()
    it.destination.room = 1
    it.transfer.go_on()
    assert it.destination.bodies == [1]


def test_nothing_goes_back_after_a_return():
    it = Shoveling()
    it.destination.room = 0
    it.deliver(1)
    it.transfer.halt()
    it.transfer.give_back_waiting()
    assert it.source.said == []


def test_the_source_is_paused_while_too_many_bytes_wait(monkeypatch):
    monkeypatch.setattr(transfer, "WAITING_BYTES_MAX", 5)
    it = Shoveling()
    it.destination.room = 0
    it.deliver(1, 2, 3, 4, 5)
    assert it.is_reading
    it.deliver(6)
    assert not it.is_reading
    it.destination.room = 1
    it.transfer.go_on()
    assert it.destination.bodies == [1, 2, 3, 4, 5, 6]
    assert it.is_reading


def test_the_source_is_paused_while_more_is_unsettled_than_a_prefetch_count_explains(monkeypatch):
    monkeypatch.setattr(transfer, "UNSETTLED_MAX", 3)
    it = Shoveling()
    it.deliver(1, 2, 3)
    assert it.is_reading
    it.deliver(4)
    assert not it.is_reading
    it.transfer.confirmed(2, False, True)
    assert it.is_reading


@pytest.mark.parametrize("ack_mode", [ON_CONFIRM, ON_PUBLISH, NO_ACK])
def test_a_source_that_was_paused_is_heard_when_it_is_to_stop(monkeypatch, ack_mode):
    monkeypatch.setattr(transfer, "WAITING_BYTES_MAX", 1)
    it = Shoveling(ack_mode)
    it.destination.room = 0
    it.deliver(1, 2)
    assert not it.is_reading
    it.transfer.hear_source()
    # Without acknowledgements what would come now is nowhere else.
    assert it.is_reading is (ack_mode != NO_ACK)
    if ack_mode != NO_ACK:
        it.deliver(3)
    it.destination.room = 9
    it.transfer.go_on()
    assert it.destination.bodies == [1, 2]


def test_returned_messages_no_longer_wait(monkeypatch):
    monkeypatch.setattr(transfer, "WAITING_BYTES_MAX", 1)
    it = Shoveling()
    it.destination.room = 0
    it.deliver(1, 2)
    it.transfer.give_back_waiting()
    assert it.is_reading
