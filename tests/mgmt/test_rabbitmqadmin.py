"""rabbitmqadmin against a node: RabbitMQ's own, from Debian's package, and the served one."""

import json
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def admin(node, vhost, rabbitmqadmin):
    def run(*arguments):
        command = [sys.executable, rabbitmqadmin, "-P", node.http_port, "-V", vhost, *arguments]
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_declaring_publishing_getting_and_deleting(admin, node, vhost):
    assert admin("declare", "queue", "name=q", "durable=true") == "queue declared\n"
    assert admin("declare", "exchange", "name=x", "type=topic") == "exchange declared\n"
    admin("declare", "binding", "source=x", "destination=q", "routing_key=a.#")
    assert admin("publish", "exchange=x", "routing_key=a.b", "payload=hello") == (
        "Message published\n"
    )
    got = json.loads(admin("-f", "raw_json", "get", "queue=q", "ackmode=ack_requeue_false"))
    assert [message["payload"] for message in got] == ["hello"]
    assert "q" in admin("-f", "tsv", "list", "queues", "name", "messages")
    admin("purge", "queue", "name=q")
    admin("delete", "queue", "name=q")
    assert node.request("GET", f"queues/{vhost}/q").status == 404


def test_everything_can_be_listed(admin):
    for name in ("users", "vhosts", "connections", "exchanges", "bindings", "permissions",
                 "channels", "consumers", "parameters", "policies", "queues", "nodes",
                 "vhost_limits", "operator_policies"):  # fmt: skip
        admin("list", name)
    assert "rabbitmq_version" in admin("show", "overview")


def test_policies_parameters_users_and_definitions(admin, node, vhost, tmp_path):
    admin("declare", "policy", "name=p", "pattern=^a", 'definition={"max-length":5}')
    admin("declare", "user", "name=scripted", "password=p", "tags=management")
    admin(
        "declare",
        "permission",
        f"vhost={vhost}",
        "user=scripted",
        "configure=.",
        "write=.",
        "read=.",
    )
    admin("declare", "vhost_limit", f"vhost={vhost}", "name=max-queues", "value=7")
    assert node.get("users/scripted")["tags"] == ["management"]
    admin("delete", "user", "name=scripted")
    path = tmp_path / "definitions.json"
    admin("export", path)
    assert [one["name"] for one in json.loads(path.read_text())["policies"]] == ["p"]
    admin("delete", "policy", "name=p")
    admin("import", path)
    assert node.get(f"policies/{vhost}/p")["definition"] == {"max-length": 5}
