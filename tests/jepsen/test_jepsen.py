"""Short runs with queues under faults. `make jepsen` makes longer ones, with any seed."""

from types import SimpleNamespace

import pytest

from tests.cluster.namespaces import why_not
from tests.jepsen.plan import IGNORE, PAUSE_IF_ALL_DOWN, PAUSE_MINORITY, plan
from tests.jepsen.queue_kinds import AMQP10, MIRRORED, MQTT, QUORUM, STREAM
from tests.jepsen.run import Run, run

WHY_NOT = why_not()
SECONDS, QUORUM_SECONDS, SHORT_SECONDS = 20.0, 12.0, 8.0


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
@pytest.mark.parametrize(
    "wanted",
    [
        Run(1, PAUSE_MINORITY, 3, SECONDS, 1),
        Run(3, PAUSE_IF_ALL_DOWN, 3, SECONDS, 1),
        Run(2, IGNORE, 3, QUORUM_SECONDS, 1, QUORUM),
        Run(6, IGNORE, 3, SHORT_SECONDS, 1, AMQP10),
        Run(4, IGNORE, 3, SECONDS, 1, STREAM),
        Run(5, PAUSE_MINORITY, 3, SHORT_SECONDS, 1, MQTT),
    ],
    ids=[
        "mirrored, pause_minority",
        "mirrored, pause_if_all_down",
        "quorum, ignore",
        "AMQP 1.0 with quorum, ignore",
        "stream, ignore",
        "MQTT, pause_minority",
    ],
)
def test_nothing_that_was_confirmed_is_lost(tmp_path, wanted):
    lines = []
    outcome = run(wanted, tmp_path, lines.append)
    assert not outcome.problems, "\n".join([str(wanted), *lines, *outcome.figures])


def test_a_plan_follows_from_its_seed():
    def planned(seed):
        return plan(seed, "abc", 60, PAUSE_MINORITY, 2)

    assert planned(1) == planned(1)
    assert planned(1) != planned(2)


def test_a_queue_whose_messages_are_never_acknowledged_is_not_drained(monkeypatch):
    nodes = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]
    shown = [
        {"name": name, "node": "a", "state": "running", "messages": 0} for name in MIRRORED.names
    ]
    monkeypatch.setattr("tests.jepsen.queue_kinds.api", lambda node, path: shown)
    assert MIRRORED.depth(nodes) == 0
    shown[1] |= {"node": "b", "messages": 2, "messages_ready": 0, "messages_unacknowledged": 2}
    assert MIRRORED.depth(nodes) == 2
    shown[2]["node"] = "c"
    assert MIRRORED.depth(nodes) == 1, "nobody knows what a node has that does not answer"


def test_a_queue_without_a_leader_is_not_drained(monkeypatch):
    nodes = [SimpleNamespace(name="a")]
    shown = [
        {"name": name, "node": "a", "state": "running", "messages": 0} for name in MIRRORED.names
    ]
    monkeypatch.setattr("tests.jepsen.queue_kinds.api", lambda node, path: shown)
    assert MIRRORED.depth(nodes) == 0
    shown[0]["state"] = "down"
    assert MIRRORED.depth(nodes) == 1, "it shows no messages until it is led again"
