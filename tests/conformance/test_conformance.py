"""Leveret answers as RabbitMQ 3.10 does: every scenario's transcript is the recorded one.

record.py says how golden.json is recorded. docs/reference/conformance.md describes the scenarios.
"""

import json

import pytest

from tests.conformance.compare import differences
from tests.conformance.context import Target
from tests.conformance.record import GOLDEN
from tests.conformance.scenario import every_scenario
from tests.conformance.transcripts import Transcripts
from tests.mgmt.served_node import ServedNode

QUIET_SECONDS, LONG_QUIET_SECONDS = 0.8, 12
"""A broker that sends nothing for so long has nothing to send: nearly always, and always."""
SCENARIOS = every_scenario()


@pytest.fixture(scope="session")
def golden():
    return json.loads(GOLDEN.read_text())


@pytest.fixture(scope="session")
def transcripts(request, tmp_path_factory):
    """The transcripts of the scenarios that this run has chosen."""
    node = ServedNode(tmp_path_factory.mktemp("node"))
    chosen = [
        item.callspec.params["scenario"]
        for item in request.session.items
        if getattr(item, "originalname", "") == test_it_answers_as_rabbitmq_does.__name__
    ]
    with Transcripts(Target(node.port, node.http_port, QUIET_SECONDS), chosen) as running:
        yield running
    node.stop()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.identifier)
def test_it_answers_as_rabbitmq_does(scenario, transcripts, golden):
    expected = golden[scenario.identifier]
    try:
        found = transcripts.of(scenario)
    except Exception as error:
        found = repr(error)
    if differences(expected, found):
        # On a busy machine, an answer may have come after the time in which it was waited for, or
        # after the time that brokers themselves have: 5 s for the first leader of a new stream.
        assert not differences(expected, transcripts.again(scenario, LONG_QUIET_SECONDS))


def test_nothing_is_recorded_that_no_scenario_asks(golden):
    assert sorted(golden) == sorted(scenario.identifier for scenario in SCENARIOS)
