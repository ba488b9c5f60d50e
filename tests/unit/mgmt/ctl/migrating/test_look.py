"""What counts as moved between two looks: idle links make room for those of other queues."""

import pytest

from leveret.mgmt.ctl.migrating.links import BACKWARD, FORWARD, QueueAtBoth, QueueAtOne
from leveret.mgmt.ctl.migrating.look import IDLE_SECONDS, IdleLinks, Look, MigrationLinks

PLACE = "/", "q"


def links(forwarded, direction=FORWARD, state="running"):
    status = {"state": state, "forwarded": forwarded}
    return MigrationLinks({PLACE: direction}, {}, {PLACE: status})


def idle(*looks):
    """The idle links after looks at them, each `IDLE_SECONDS` later than the one before it."""
    found, watch = set(), IdleLinks()
    for number, one in enumerate(looks):
        found = watch.found(one, number * IDLE_SECONDS)
    return found


def test_a_connected_link_that_moves_nothing_is_idle():
    assert idle(links(7), links(7)) == {PLACE}
    assert idle(links(0), links(0)) == {PLACE}


@pytest.mark.parametrize(
    "looks",
    [
        (links(7),),
        (links(7), links(8)),
        (links(7), links(0)),
        (links(7), links(7, BACKWARD)),
        (links(7, state="flow"), links(7)),
        (links(7), links(7, state="terminated")),
        (links(7), MigrationLinks({}, {}, {})),
    ],
    ids=["one look", "more", "again", "turned", "unconfirmed", "failed", "removed"],
)
def test_a_link_that_is_not_idle(looks):
    assert idle(*looks) == set()


def counts(direction, kind="classic"):
    """The messages at both brokers after an idle link of a queue with 5 and 2 has moved all."""
    queue = QueueAtBoth(PLACE, QueueAtOne(kind, 5, 0), QueueAtOne(kind, 2, 0))
    look = Look([queue], links(0, direction), [], 0).with_links(links(5, direction), {PLACE})
    assert look.is_estimated
    return look.queues[0].source.messages, look.queues[0].target.messages


def test_what_an_idle_link_had_to_move_is_moved():
    assert counts(FORWARD) == (0, 7)
    assert counts(BACKWARD) == (7, 0)
    assert counts(FORWARD, "stream") == (5, 5)
