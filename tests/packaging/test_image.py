"""The image as Docker runs it: without privileges, on a root file system that is read-only.

The tests are skipped where no Docker runs or no image was built (docker/Dockerfile).
"""

import json
import subprocess
import time

import pika
import pytest

from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS
from tests.ports import free_port

IMAGE, BYTES_MAX = "leveret", 150_000_000
RESTRICTED = (
    "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
)  # fmt: skip
LOGIN = pika.PlainCredentials("ann", "secret")


def docker(*words, check=True):
    done = subprocess.run(
        ["docker", *map(str, words)], capture_output=True, text=True, check=False,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0 or not check, f"docker {words}: {done.stderr}"
    return done


def has_image():
    try:
        return docker("image", "inspect", IMAGE, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not has_image(), reason="Docker has no image 'leveret', or does not run"),
]


class Container:
    """A container of the image with a volume, on the network of the host."""

    def __init__(self, volume):
        self.port = free_port()
        settings = {
            "LEVERET_LISTENERS_TCP": f"127.0.0.1:{self.port}", "LEVERET_CLUSTER_PORT": 0,
            "LEVERET_MANAGEMENT_PORT": 0, "LEVERET_PROMETHEUS_PORT": 0,
            "LEVERET_DEFAULT_USER": LOGIN.username, "LEVERET_DEFAULT_PASS": LOGIN.password,
        }  # fmt: skip
        variables = [word for name, value in settings.items()
                     for word in ("--env", f"{name}={value}")]  # fmt: skip
        self.id = docker(
            "run", "--detach", "--network", "host", "--volume", f"{volume}:/var/lib/leveret",
            "--health-interval", "1s", *RESTRICTED, *variables, IMAGE,
        ).stdout.strip()  # fmt: skip
        self.wait_until_healthy()

    def state(self):
        return json.loads(docker("inspect", self.id).stdout)[0]["State"]

    def wait_until_healthy(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (state := self.state())["Health"]["Status"] != "healthy":
            assert state["Running"], docker("logs", self.id).stdout
            assert time.monotonic() < deadline, state
            time.sleep(LOOK_SECONDS)

    def run(self, *words, check=True):
        return docker("exec", self.id, *words, check=check)

    def connect(self):
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, credentials=LOGIN)
        )

    def stop(self):
        """Stop it in order; its exit code and its log."""
        docker("stop", "--time", 60, self.id)
        return self.state()["ExitCode"], docker("logs", self.id).stdout

    def remove(self):
        docker("rm", "--force", self.id)


@pytest.fixture
def volume():
    name = docker("volume", "create").stdout.strip()
    yield name
    docker("volume", "rm", name)


@pytest.fixture
def start(volume):
    """Starts containers with the same volume, one after another."""
    started = []

    def start_one():
        started.append(Container(volume))
        return started[-1]

    yield start_one
    for one in started:
        one.remove()


def test_the_image_is_small():
    assert json.loads(docker("image", "inspect", IMAGE).stdout)[0]["Size"] <= BYTES_MAX


def test_messages_are_in_the_volume_when_another_container_takes_its_place(start):
    first = start()
    with first.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    code, log = first.stop()
    assert (code, log.splitlines()[-1].endswith("stopped")) == (0, True), log
    with start().connect() as connection:
        assert connection.channel().basic_get("q", auto_ack=True)[2] == b"kept"


def test_the_node_is_compiled_and_not_root_and_its_commands_work(start):
    container = start()
    assert container.run("id", "-u").stdout.strip() == "5672"
    assert "compiled" in container.run("leveretctl", "status").stdout
    assert container.run("touch", "/etc/leveret/x", check=False).returncode != 0
    refused = container.run("leveret-plugins", "enable", "rabbitmq_mqtt", check=False)
    assert "cannot write /etc/leveret/enabled_plugins: Read-only file system" in refused.stderr
