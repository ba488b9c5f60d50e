"""A node's use of a quorum queue: numbers, sessions, the end of a sender, and who holds what."""

from functools import partial
from itertools import count

import pytest

from leveret.cluster.quorum.client.consuming_client import ConsumerCommand, ConsumingClient
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.client.holders import POSITION_BITS, Holders, Settlement
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.replicated_queues.client.group_client import SendCommands, StartSession
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from leveret.storage.messages.message import Entry, Message
from tests.unit.broker.queues.fakes import ADDRESS, HEADER

MESSAGE = Message(ADDRESS, HEADER, b"")


class Asked(NumberedCommand):
    """A command that is its name. results: those that it was told."""

    def __init__(self, name, is_doubtful=True):
        super().__init__()
        self.name, self.is_doubtful, self.results = name, is_doubtful, []

    def encode(self, sender, seen):
        return f"{sender} {self.number} {self.name}".encode()

    def applied(self, result):
        self.results.append(result)

    def sender_forgotten(self):
        return self.is_doubtful


class Join(Asked):
    def sender_ended(self):
        return False

    def sender_forgotten(self):
        return False


class Consumer(ConsumerCommand):
    """positions: those that have arrived."""

    def __init__(self):
        super().__init__()
        self.positions = []

    def encode(self, sender, seen):
        return f"{sender} {self.number} consume".encode()

    def arrived(self, runs):
        for one in runs:
            self.positions += range(one.run.position, one.run.last + 1)

    def timed_out(self, positions):
        pass

    def holder_ended(self):
        self.positions = []


class Senders:
    """101, 102 and so on."""

    def __init__(self):
        self.next_number = partial(next, count(101))

    def join(self):
        return Join("join")


@pytest.fixture
def client():
    client = ConsumingClient(Senders())
    client.leader_found()
    return client


def sent(client):
    """What the client sends now."""
    return [
        payload.decode()
        for output in client.take_outputs()
        if isinstance(output, SendCommands)
        for payload in output.payloads
    ]


def attach(client):
    """The one question to attach that is asked now."""
    (asked,) = [one for one in client.take_outputs() if isinstance(one, StartSession)]
    return asked


def attached(client, applied=0):
    """The leader answers, and has applied some commands."""
    session = attach(client).session
    if applied:
        client.applied(session, applied)
    else:
        client.sender_unknown(session)
    return session


def delivered(position, count, delivery):
    return DeliveredRun(Run(position, count, 1, 0, 1, 4, delivery=delivery), b"", 0)


def test_a_client_that_asks_for_nothing_says_nothing(client):
    assert client.take_outputs() == []


def test_the_first_command_of_a_sender_joins(client):
    client.add(Asked("x"))
    attached(client)
    assert sent(client) == ["101 1 join", "101 2 x"]


def test_commands_are_done_in_order_and_results_come_first(client):
    first, second = Asked("1"), Asked("2")
    client.add(first)
    client.add(second)
    session = attached(client)
    client.result(session, 3, "result")
    assert (first.results, second.results) == ([None], ["result"])
    client.result(session, 3, "again")
    client.applied(session, 3)
    assert second.results == ["result"]


def test_the_next_leader_gets_commands_that_are_not_applied(client):
    one, two = Asked("1"), Asked("2")
    client.add(one)
    client.add(two)
    attached(client)
    assert sent(client) == ["101 1 join", "101 2 1", "101 3 2"]
    client.leader_lost()
    client.add(Asked("3"))
    assert client.take_outputs() == []
    client.leader_found()
    attached(client, applied=2)
    assert sent(client) == ["101 3 2", "101 4 3"]
    assert (one.results, two.results) == ([None], [])


def test_nothing_of_an_earlier_session_counts(client):
    command, consumer = Asked("1"), Consumer()
    client.add(command)
    client.add(consumer)
    old = attached(client)
    client.leader_found()
    client.applied(old, 3)
    client.result(old, 2, "result")
    client.deliver(old, 3, [delivered(1, 1, 1)])
    client.sender_ended(old)
    assert (command.results, consumer.positions, client.sender) == ([], [], 101)
    assert isinstance(client.take_outputs()[0], StartSession)


@pytest.mark.parametrize("through", [3, 9])
def test_an_answer_for_a_command_that_was_not_sent_is_an_error(client, through):
    client.add(Asked("1"))
    session = attached(client)
    with pytest.raises(ValueError, match="the last one is 2"):
        client.applied(session, through)
    with pytest.raises(ValueError, match="the last one is 2"):
        client.result(session, through + 1, None)


def test_the_client_says_what_its_consumers_have_received(client):
    consumer = Consumer()
    client.add(consumer)
    session = attached(client, applied=0)
    client.deliver(session, 2, [delivered(1, 3, 1), delivered(7, 1, 4)])
    client.leader_found()
    asked = attach(client)
    assert (asked.sender, asked.seen, asked.received) == (101, 0, {2: 4})
    client.deliver(asked.session, 2, [delivered(1, 3, 1), delivered(7, 2, 4)])
    assert consumer.positions == [1, 2, 3, 7, 8], "what it has is left out"


def test_what_an_ended_sender_has_not_done_is_sent_by_the_next_one(client):
    done, left, consumer, asking = Asked("done"), Asked("left"), Consumer(), Consumer()
    client.add(consumer)
    client.add(done)
    client.add(left)
    client.add(asking)
    session = attached(client)
    client.deliver(session, 2, [delivered(1, 1, 1)])
    sent(client)
    client.sender_unknown(session)
    session = attach(client).session
    client.applied(session, 3)
    client.sender_ended(session)
    assert (done.results, left.results, consumer.positions) == ([None], [], [])
    asked = attach(client)
    assert (asked.sender, asked.seen, asked.received) == (102, 0, {2: 0, 4: 0})
    client.sender_unknown(asked.session)
    assert sent(client) == ["102 1 join", "102 2 consume", "102 3 left", "102 4 consume"]


def test_commands_of_a_forgotten_sender_are_in_doubt(client):
    client.add(Asked("kept"))
    client.add(Asked("doubtful", is_doubtful=False))
    client.add(Asked("sure"))
    client.leader_found()
    attached(client, applied=1)
    client.leader_found()
    client.sender_unknown(attach(client).session)
    attached(client)
    assert sent(client) == ["102 1 join", "102 2 kept", "102 3 sure"]


# Who holds what


def entries(holder, *positions):
    return [Entry(MESSAGE, holder.key << POSITION_BITS | position) for position in positions]


def test_settled_positions_are_ascending_intervals_of_each_holder():
    holders, settlement = Holders(), Settlement()
    one, other = holders.add(), holders.add()
    one.unsettled, other.unsettled = 5, 1
    settlement.add(entries(one, 4, 5))
    settlement.add(entries(other, 6))
    settlement.add(entries(one, 1, 3, 2))
    assert settlement
    assert settlement.take(holders, False) == [(one, [1, 5]), (other, [6, 6])]
    assert not settlement
    assert settlement.take(holders, False) == []


def test_a_holder_that_has_ended_settles_nothing():
    holders, settlement = Holders(), Settlement()
    holder = holders.add()
    holder.unsettled = 2
    holders.end_all()
    settlement.add(entries(holder, 1, 2))
    assert settlement.take(holders, False) == []
    assert holder.unsettled == 0
    settlement.add(entries(holder, 1))
    assert settlement.take(holders, False) == [], "it is forgotten"


def test_a_key_is_not_used_again_while_an_entry_has_it():
    holders, settlement = Holders(keys_max=2), Settlement()
    first, second = holders.add(), holders.add()
    first.unsettled = 1
    holders.close(first)
    holders.close(second)
    assert holders.add().key == second.key
    settlement.add(entries(first, 1))
    assert settlement.take(holders, False) == [(first, [1, 1])]
    assert holders.add().key == first.key
