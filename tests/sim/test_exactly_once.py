"""Seeds of QoS 2 with crashes, and the crash that each rule is for."""

import pytest

from leveret.broker.protocols.mqtt.exactly_once import (
    Completed,
    Forget,
    Inbound,
    Outbound,
)
from tests.sim.exactly_once_scenario import run_seed
from tests.sim.properties import Broken

SEEDS = 150


def test_each_message_is_handed_over_once_in_every_run():
    for seed in range(1, SEEDS):
        run_seed(seed)


def hand_over_again(self, packet_id, now_us):
    """XO1 broken."""
    self._ids.pop(packet_id, None)
    return published(self, packet_id, now_us)


def forget_at_once(self, packet_id):
    """XO4 broken: RELEASED is not kept until a barrier has passed."""
    effects = completed(self, packet_id)
    return [
        *effects,
        *(Forget(one.identity) for one in effects if isinstance(one, Completed)),
    ]  # fmt: skip


def comes_once(self, delivery):
    """XO5 broken."""
    return False


published, completed = Inbound.published, Outbound.completed


@pytest.mark.parametrize(
    ("machine", "name", "broken"),
    [
        (Inbound, "published", hand_over_again),
        (Outbound, "completed", forget_at_once),
        (Outbound, "_may_come_again", comes_once),
    ],
)
def test_the_runs_find_a_broken_rule(monkeypatch, machine, name, broken):
    monkeypatch.setattr(machine, name, broken)
    with pytest.raises(Broken, match="doubled|lost|it ends"):
        for seed in range(1, SEEDS):
            run_seed(seed)
