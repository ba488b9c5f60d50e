"""rabbitmq-c, a client in C, by its command line programs."""

import shutil
import subprocess

import pytest

from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None,
    reason="amqp-publish is missing: apt-get install amqp-tools",
)


def run(program, url, *arguments, text=""):
    return subprocess.run(
        [program, f"--url={url.rstrip('/')}/%2f", *arguments],
        input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    ).stdout  # fmt: skip


def test_publish_and_get(amqp_url):
    run("amqp-declare-queue", amqp_url, "-q", "c", "-d")
    run("amqp-publish", amqp_url, "-r", "c", "-b", "from C", "-p")
    assert run("amqp-get", amqp_url, "-q", "c") == "from C"


def test_consume(amqp_url):
    run("amqp-declare-queue", amqp_url, "-q", "c")
    for _ in range(3):
        run("amqp-publish", amqp_url, "-r", "c", "-b", "x")
    assert run("amqp-consume", amqp_url, "-q", "c", "-c", "3", "cat") == "xxx"
