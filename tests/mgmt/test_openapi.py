"""The API conforms to its own description: schemathesis requests everything that is described.

It runs in a process of its own against a node with one object of each kind (openapi_hooks.py), and
checks statuses, content types, headers and schemas of answers; that invalid requests are refused,
that a login is required where described, and that no answer has status 500.
`positive_data_acceptance` is disabled: whether a valid request is accepted depends on the objects
of the node, as in RabbitMQ, which a schema cannot express.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.mgmt.openapi_objects import DEFINITIONS
from tests.mgmt.served_node import ServedNode

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS_MAX = 900
USER = "describer"
"""The administrator of the run, who must not be changed by it."""
NAMES = {
    "vhost": ["described", "/", "clients"], "queue": ["q", "q/ü %", "s"],
    "exchange": ["x", "x2", "amq.default", "amq.topic"], "user": ["somebody", USER],
    "source": ["x", "amq.default", "amq.topic"], "destination": ["q", "x2"],
    "kind": ["q", "e", "queue", "exchange"], "props": ["a.%23", "b"],
    "name": ["known", "max-queues", "max-connections", "limits", "max-channels", "user_limits"],
    "component": ["federation-upstream", "operator_policy", "vhost-limits", "policy"],
    "within": ["3"],
    "unit": ["days", "months"], "port": ["1"], "protocol": ["amqp", "http"],
}  # fmt: skip
"""Existing names, by the names of path parameters."""


@pytest.fixture
def described(tmp_path):
    """A node with one object of each kind, including a client; and the environment of a run."""
    # Wrong logins of the run come from the same address as right ones.
    served = ServedNode(tmp_path, "auth_failures_per_minute = 1000000")
    served.put(f"users/{USER}", {"password": USER, "tags": "administrator"})
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.mgmt.openapi_hooks",
        "OPENAPI_API_URL": f"http://127.0.0.1:{served.http_port}/api", "COLUMNS": "200",
        "OPENAPI_NAMES": json.dumps({**NAMES, "node": [served.name]}),
    }  # fmt: skip
    assert served.post("definitions", DEFINITIONS).status == 204
    client = busy_client(served)
    names = {
        **NAMES, "node": [served.name],
        "connection": [one["name"] for one in served.get("connections")],
        "channel": [one["name"] for one in served.get("channels")],
        "id": [one["id"] for one in served.get("federation-links")],
    }  # fmt: skip
    yield served, {**environment, "OPENAPI_NAMES": json.dumps(names)}
    if client.is_open:
        client.close()
    served.stop()


def busy_client(served):
    """A client with a channel, consumers, an exclusive queue, and different kinds of messages."""
    login = pika.PlainCredentials(USER, USER)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", served.port, "clients", login, heartbeat=0)
    )
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    channel.queue_declare("own", exclusive=True)
    properties = pika.BasicProperties(headers={"a": [1, "x", None]}, priority=2, timestamp=5)
    for body in (b"text", b"\xff\xfe", b""):
        channel.basic_publish("", "q", body, properties)
        channel.basic_publish("", "q/ü %", body)
    channel.basic_consume("q", lambda *_: None)
    connection.process_data_events(0.2)
    served.wait_until(lambda: served.get("channels"), "its channel is listed")
    return connection


EXPECTED = """
[phases.coverage]
unexpected-methods = ["PATCH"]

[[operations]]
include-path-regex = "^/queues/quorum/"
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", 503]
"""
"""RabbitMQ answers 503 if the members of a queue cannot be changed, whatever the reason. Of methods
that a path does not have, one is tried: all are refused in one place (mgmt/api/server.py).
"""


def run(described, tmp_path, *options, **more):
    """Run schemathesis, and return its output if it found something."""
    served, environment = described
    (tmp_path / "schemathesis.toml").write_text(EXPECTED)
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run",
        f"http://127.0.0.1:{served.http_port}/api/openapi.json", "--auth", f"{USER}:{USER}",
        "--exclude-checks", "positive_data_acceptance", "--generation-deterministic", "--no-color",
        "--suppress-health-check", "all",
        *options,
    ]  # fmt: skip
    done = subprocess.run(
        command, env={**environment, **more}, cwd=tmp_path, capture_output=True, text=True,
        timeout=RUN_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert served.process.poll() is None, served.log[-3000:]
    assert " failed\nTraceback" not in served.log
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{served.log[-3000:]}"
    return done.stdout


@pytest.mark.timeout(RUN_SECONDS_MAX + 20)
def test_every_operation_answers_as_described(described, tmp_path):
    """Each parameter and field at its limits and beyond."""
    said = run(described, tmp_path, "--phases", "coverage", OPENAPI_WHOLE="1")
    paths = described[0].get("openapi.json")["paths"]
    # The description itself is not requested.
    count = sum(len(item.keys() - {"parameters"}) for item in paths.values()) - 1
    assert f"Tested: {count}" in said


@pytest.mark.timeout(RUN_SECONDS_MAX + 20)
def test_generated_requests_are_answered_as_described(described, tmp_path):
    """Random names and queries, with and without columns; the other test has the bodies."""
    run(
        described, tmp_path, "--phases", "fuzzing", "--max-examples", "1",
        "--include-method", "GET",
    )  # fmt: skip
