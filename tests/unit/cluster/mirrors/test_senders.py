"""Contents that nodes have sent, until the leader's decision comes."""

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.cluster.mirrors.senders import ContentSenders
from leveret.storage.messages.message import Message
from tests.unit.cluster.mirrors.group_of_queues import ADDRESS, HEADERS

NODE, OTHER = 1, 2


def run_of(first, *bodies, sender=NODE):
    messages = [Message(ADDRESS, HEADERS[0], body) for body in bodies]
    return publication_of(messages).sent(sender, first)


def bodies(runs):
    return [[message.body for message in run.messages] for run in runs]


@pytest.fixture
def senders():
    """Senders of which one has sent a, b and c, from number 10 on."""
    found = ContentSenders()
    found.begins(NODE, 10)
    found.add(run_of(10, b"a", b"bb"))
    found.add(run_of(12, b"ccc"))
    return found


class TestADecision:
    def test_names_contents_that_have_come(self, senders):
        assert senders.has(NODE, 10, 3)
        assert bodies(senders.take(NODE, 10, 3)) == [[b"a", b"bb"], [b"ccc"]]
        assert senders.bytes_held == 0

    def test_may_name_a_part_of_a_run(self, senders):
        assert bodies(senders.take(NODE, 10, 1)) == [[b"a"]]
        assert senders.bytes_held == 5
        assert bodies(senders.take(NODE, 11, 2)) == [[b"bb"], [b"ccc"]]

    def test_comes_before_its_contents(self, senders):
        assert not senders.has(NODE, 12, 2)
        assert not senders.lacks(NODE, 12, 2)
        senders.add(run_of(13, b"d"))
        assert senders.has(NODE, 12, 2)

    def test_names_contents_that_never_come_since_their_node_is_gone(self, senders):
        senders.gone(NODE)
        assert not senders.lacks(NODE, 10, 3)
        assert senders.lacks(NODE, 12, 2)

    def test_names_contents_that_were_sent_before_the_mirror_was_known(self, senders):
        assert senders.lacks(NODE, 9, 2)

    def test_names_none_twice(self, senders):
        senders.take(NODE, 10, 2)
        with pytest.raises(AssertionError, match="MQ5"):
            senders.take(NODE, 11, 1)

    def test_refuses_contents_whether_they_have_come_or_not(self, senders):
        senders.refuse(NODE, 10, 1)
        senders.refuse(NODE, 11, 3)
        senders.add(run_of(13, b"d", b"e"))
        assert bodies(senders.undecided()) == [[b"e"]]
        assert senders.bytes_held == 1

    def test_ends_a_sender_whose_later_contents_are_void(self, senders):
        senders.end(NODE, 11)
        assert bodies(senders.undecided()) == [[b"a"]]
        senders.add(run_of(13, b"d"))
        assert senders.bytes_held == 1


class TestTheNextLeader:
    def test_gets_undecided_messages_in_the_order_of_each_sender(self, senders):
        senders.add(run_of(0, b"x", sender=OTHER))
        senders.add(run_of(13, b"d"))
        senders.take(NODE, 10, 1)
        found = [(undecided.sender, undecided.number) for undecided in senders.undecided()]
        assert found == [(NODE, 11), (NODE, 12), (NODE, 13), (OTHER, 0)]
        assert senders.decided() == {NODE: 11, OTHER: 0}

    def test_gets_refusals_that_a_sender_may_not_know(self, senders):
        senders.refuse(NODE, 10, 2)
        senders.told(NODE, 11)
        assert {sender: list(found) for sender, found in senders.refusals().items()} == {
            NODE: [(11, 12)]
        }


def test_contents_out_of_order_are_an_error_of_the_node(senders):
    with pytest.raises(ValueError, match="contents 14 follow those before 13"):
        senders.add(run_of(14, b"e"))
    with pytest.raises(ValueError, match="begin at 5"):
        senders.begins(NODE, 5)


def test_a_sender_that_is_forgotten_holds_nothing(senders):
    senders.forget(NODE)
    assert senders.bytes_held == 0
    assert senders.undecided() == []
