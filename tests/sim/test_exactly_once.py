"""Seeds of QoS 2 with crashes, and the crash that each rule is for."""

import pytest

from leveret.broker.protocols.mqtt.exactly_once import Inbound, Outbound
from tests.sim.exactly_once_scenario import run_seed
from tests.sim.properties import Broken

SEEDS = 300


def test_each_message_is_handed_over_once_in_every_run():
    for seed in range(1, SEEDS):
        run_seed(seed)


def hand_over_again(self, packet_id):
    """XO1 broken."""
    self._ids.pop(packet_id, None)
    return published(self, packet_id)


def complete_at_once(self, packet_id, delivery):
    """XO4 broken: COMPLETED does not wait for the acknowledgement."""
    if delivery.is_completed:
        delivery.state = type(delivery.state).ACKNOWLEDGED
    return complete(self, packet_id, delivery)


published, complete = Inbound.published, Outbound._complete


@pytest.mark.parametrize(
    ("machine", "name", "broken"),
    [
        (Inbound, "published", hand_over_again),
        (Outbound, "_complete", complete_at_once),
    ],
)
def test_the_runs_find_a_broken_rule(monkeypatch, machine, name, broken):
    monkeypatch.setattr(machine, name, broken)
    with pytest.raises(Broken, match="doubled|lost|it ends"):
        for seed in range(1, SEEDS):
            run_seed(seed)
