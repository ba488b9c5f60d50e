"""amqplib for Node: the results of node/check.js. npm installs the library for the test run."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

SCRIPT = Path(__file__).parent / "node" / "check.js"
INSTALL_SECONDS_MAX = 60

pytestmark = pytest.mark.timeout(INSTALL_SECONDS_MAX + PATIENCE_SECONDS + 10)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """A directory with amqplib in it."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    folder = tmp_path_factory.mktemp("node")
    command = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "amqplib"]
    try:
        subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=True
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install amqplib in {INSTALL_SECONDS_MAX} s: is there a network?")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm cannot install amqplib: {error.stderr}")
    return folder / "node_modules"


@pytest.fixture
def seen(modules, amqp_url):
    """The results of the script."""
    run = subprocess.run(
        ["node", SCRIPT, amqp_url],
        env=os.environ | {"NODE_PATH": str(modules)},
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_what_a_node_program_sees(seen):
    assert seen == {
        "product": "RabbitMQ",
        "consumed": {
            "body": "hello",
            "routingKey": "orders.new",
            "redelivered": False,
            "headers": {"n": 1, "deep": {"a": [1, "b", True]}},
            "contentType": "text/plain",
        },
        "redelivered": True,
        "deadLettered": "rejected",
        "empty": False,
        "returned": "NO_ROUTE",
        "error": (
            "Operation failed: QueueDeclare; 404 (NOT-FOUND) with message "
            "\"NOT_FOUND - no queue 'none' in vhost '/'\""
        ),
        "messages": 0,
    }
