"""The HTTP API answers like a real RabbitMQ: statuses, headers, keys, types and values.

`golden/answers` has the answers of RabbitMQ 3.10.8; `golden/deliberate.json` has intentional
differences with reasons. To replay against a running broker, which may be a RabbitMQ:

    REPLAY_AMQP_PORT=5672 REPLAY_HTTP_PORT=15672 pytest tests/mgmt/test_against_rabbitmq.py
"""

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.mgmt.recorder.broker import Broker
from tests.mgmt.recorder.scenarios import SCENARIOS
from tests.patience import PATIENCE_SECONDS

DELIBERATE = json.loads((Path(__file__).parent / "golden" / "deliberate.json").read_text())
RUNNING = "REPLAY_HTTP_PORT" in os.environ
SETTLE_SECONDS = 12 if RUNNING else PATIENCE_SECONDS
"""Sums of a vhost are updated every five seconds; RabbitMQ needs two such rounds."""


@pytest.fixture(scope="session")
def broker(request):
    """The broker named in the environment, or this worker's node."""
    if RUNNING:
        ports = int(os.environ["REPLAY_AMQP_PORT"]), int(os.environ["REPLAY_HTTP_PORT"])
    else:
        node = request.getfixturevalue("node")
        ports = node.port, node.http_port
    broker = Broker(*ports)
    yield broker
    broker.close()


def is_deliberate(line):
    return any(fnmatchcase(line, one["where"]) for one in DELIBERATE)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_answers_are_rabbitmqs(broker, scenario):
    lines = scenario.replay(broker, SETTLE_SECONDS, is_deliberate)
    assert not lines, "\n".join(["", f"{len(lines)} differences", *lines])


def test_every_deliberate_difference_has_a_reason():
    assert all(len(one["reason"]) > 20 for one in DELIBERATE)
