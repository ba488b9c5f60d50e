"""One queue as the API shows it, while it moves to another node."""

import asyncio

import pytest

from leveret.mgmt.api import queues

MOVING = {"state": "down", "mirroring": {"leader": "b@host"}}
WAITING = {"state": "down", "mirroring": {"leader": None}}
GONE_WITH_ITS_NODE = {"state": "down"}
RUNNING = {"state": "running", "mirroring": {"leader": "b@host"}}


@pytest.fixture
def show(monkeypatch):
    """Shows a queue for which these answers are found, and tells how many were looked at."""

    def show(*answers, others=("b@host",)):
        found = iter(answers)

        async def next_one(call):
            return next(found)

        monkeypatch.setattr(queues, "_shown", next_one)
        monkeypatch.setattr(queues, "other_nodes", lambda call: others)
        shown = asyncio.run(queues.show_queue(None))
        return shown, len(answers) - len(list(found))

    return show


def test_the_nodes_are_asked_again_while_none_has_it(show):
    assert show(MOVING, MOVING, RUNNING, RUNNING) == (RUNNING, 3)


def test_a_leader_that_does_not_answer_is_not_waited_for_for_ever(show):
    assert show(*[MOVING] * 10) == (MOVING, queues.ASKED_TIMES_MAX)


@pytest.mark.parametrize("answer", [WAITING, GONE_WITH_ITS_NODE, RUNNING])
def test_what_is_clear_is_asked_once(show, answer):
    assert show(answer, RUNNING) == (answer, 1)


def test_a_node_that_is_asked_by_another_looks_once(show):
    assert show(MOVING, RUNNING, others=()) == (MOVING, 1)
