"""The API keeps to its own description: schemathesis asks for everything that is described.

It is run as its users run it, in a process of its own, against a served node with one of everything
in it (openapi_hooks.py), and checks what comes back: statuses, types of content, headers, schemas;
that what the description forbids is refused, that a login is needed where it says so, and that no
answer is a 500. Left out is `positive_data_acceptance`: whether a request is granted depends, as in
RabbitMQ, on what there is on the node, which a schema cannot say.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.mgmt.node import ServedNode

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS_MAX = 100
USER = "describer"
"""The administrator of the run, so that whatever becomes of others it goes on."""
NAMES = {
    "vhost": ["described", "/", "clients"], "queue": ["q", "q/ü %"],
    "exchange": ["x", "x2", "amq.default", "amq.topic"], "user": ["somebody", USER],
    "source": ["x", "amq.default", "amq.topic"], "destination": ["q", "x2"],
    "kind": ["q", "e", "queue", "exchange"], "props": ["a.%23", "b"],
    "name": ["known", "max-queues", "max-connections", "limits", "max-channels", "user_limits"],
    "component": ["shovel", "operator_policy", "vhost-limits", "policy"], "within": ["3"],
    "unit": ["days", "months"], "port": ["1"], "protocol": ["amqp", "http"],
}  # fmt: skip
"""What is there, or is known, by the names of parameters in paths."""


@pytest.fixture
def described(tmp_path):
    """A node with one of everything, a client among it; and the environment of a run."""
    # The wrong logins of the run are from the address that the right ones are from.
    served = ServedNode(tmp_path, "auth_failures_per_minute = 1000000")
    served.put(f"users/{USER}", {"password": USER, "tags": "administrator"})
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.mgmt.openapi_hooks",
        "OPENAPI_API_URL": f"http://127.0.0.1:{served.http_port}/api", "COLUMNS": "200",
        "OPENAPI_NAMES": json.dumps({**NAMES, "node": [served.name]}),
    }  # fmt: skip
    begin = "import tests.mgmt.openapi_hooks as hooks; hooks.restore()"
    subprocess.run([sys.executable, "-c", begin], env=environment, check=True, timeout=30)
    client = busy_client(served)
    names = {
        **NAMES, "node": [served.name],
        "connection": [one["name"] for one in served.get("connections")],
        "channel": [one["name"] for one in served.get("channels")],
    }  # fmt: skip
    yield served, {**environment, "OPENAPI_NAMES": json.dumps(names)}
    if client.is_open:
        client.close()
    served.stop()


def busy_client(served):
    """A client with a channel, consumers, an exclusive queue, and messages of all sorts."""
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


def run(described, tmp_path, *options, **more):
    """Run schemathesis; what it says if it found something."""
    served, environment = described
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
    """Each parameter and field at its bounds and beyond, of whole objects."""
    said = run(described, tmp_path, "--phases", "coverage", OPENAPI_WHOLE="1")
    paths = described[0].get("openapi.json")["paths"]
    # Where the description itself comes from is not asked again.
    count = sum(len(item.keys() - {"parameters"}) for item in paths.values()) - 1
    assert f"Tested: {count}" in said


@pytest.mark.timeout(RUN_SECONDS_MAX + 20)
def test_what_is_made_up_is_answered_as_described(described, tmp_path):
    """Names, queries and bodies at random, with columns and without."""
    run(described, tmp_path, "--phases", "fuzzing", "--max-examples", "8")
