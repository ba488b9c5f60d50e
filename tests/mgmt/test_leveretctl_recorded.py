"""`leveretctl` answers like RabbitMQ's tools, whose recorded answers are replayed.

The transcripts in golden/leveretctl have about a hundred commands with output and exit code. The
commands run in this process against one node, since a process for each would take most of the time.
RabbitMQ's lists are unordered, so the lines of an answer are sorted before the comparison.
"""

import contextlib
import io
import json
import platform
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import pika
import pytest

from leveret.mgmt.ctl.leveretctl import main
from tests.mgmt.served_node import ServedNode

TRANSCRIPTS = sorted((Path(__file__).parent / "golden" / "leveretctl").glob("*.txt"))
NODE = "recorded@localhost"
RECORDED_PORT, RECORDED_HTTP_PORT = "5692", "15692"
RECORDED_PYTHON = "Python 3.11.7"
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
CONNECTION = re.compile(rf"{NODE}:\d+ -> {NODE}:0")


class Block(NamedTuple):
    """A command, or its preparation. kind: `$`, `%`, `?`, PUT, POST, CONNECT or WAIT."""

    kind: str
    text: str
    out: list[str]
    errors: list[str]
    code: int


def blocks(path):
    """Return the blocks of a transcript."""
    for part in re.split(r"\n{2,}", path.read_text().partition("\n\n")[2].strip()):
        first, *rest = part.split("\n")
        kind, _, text = first.partition(" ")
        out = [line[2:] for line in rest if line.startswith(">")]
        errors = [line[3:].rstrip(" ") for line in rest if line.startswith("2>")]
        code = next((int(line[2:]) for line in rest if line.startswith("= ")), 0)
        yield Block(kind, text.replace("NODE", NODE), out, errors, code)


class Player:
    """Replays transcripts against a node."""

    def __init__(self, node, monkeypatch):
        self._node = node
        self._monkeypatch = monkeypatch
        self._connections = []

    def play(self, block):
        """Execute a block, and return the difference, if any."""
        if block.kind == "CONNECT":
            self._connect(*block.text.split())
        elif block.kind == "WAIT":
            path, _, text = block.text.partition(" ")
            self._node.wait_until(lambda: text in json.dumps(self._node.get(path)), block.text)
        elif block.kind in ("PUT", "POST"):
            path, _, body = block.text.partition(" ")
            body = body.replace(RECORDED_PORT, str(self._node.port))
            assert self._node.request(block.kind, path, json.loads(body)).status < 300, block
        else:
            answer = self.run(block.text)
            expected = (sorted_rows(block.out), block.errors, block.code)
            if block.kind == "%":
                answer, expected = answer[2], block.code
            if block.kind != "?" and answer != expected:
                return f"{block.kind} {block.text}\n  is       {answer}\n  recorded {expected}"
        return ""

    def run(self, text):
        """Return a command's output, error output and exit code."""
        command, _, typed = text.partition(" <<< ")
        read = io.TextIOWrapper(io.BytesIO(f"{typed}\n".encode() if typed else b""))
        self._monkeypatch.setattr(sys, "stdin", read)
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(shlex.split(command))
        lines = [self._as_recorded(line) for line in out.getvalue().splitlines()]
        complaints = [self._as_recorded(line) for line in errors.getvalue().splitlines()]
        return sorted_rows(lines), complaints, code

    def _as_recorded(self, line):
        """Replace ports by the recorded ones, and remove what only the recording lacks."""
        line = line.replace(str(self._node.http_port), RECORDED_HTTP_PORT)
        line = line.replace(str(self._node.port), RECORDED_PORT)
        line = TIME.sub("TIME", CONNECTION.sub("CONNECTION", line))
        line = line.replace(f"Python {platform.python_version()}", RECORDED_PYTHON)
        return line.replace(" [--timeout <timeout>]", "").replace(NODE, "NODE").rstrip(" ")

    def _connect(self, vhost, queue):
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", self._node.port, vhost, client_properties={"connection_name": "me"}
            )
        )
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume(queue, lambda *_: None, consumer_tag="tag")
        self._connections.append(connection)


def sorted_rows(lines):
    """Sort the lines of a list; in JSON, all but the first begin with a comma."""
    return sorted(line.removeprefix(",").rstrip(" ") for line in lines)


@pytest.fixture
def node(tmp_path, monkeypatch):
    served = ServedNode(tmp_path, name=NODE)
    monkeypatch.setenv("LEVERET_DATA_DIR", str(served.data_dir))
    monkeypatch.chdir(tmp_path)
    yield served
    served.stop()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_answers_are_those_of_rabbitmqs_tools(path, node, monkeypatch):
    player = Player(node, monkeypatch)
    problems = [problem for block in blocks(path) if (problem := player.play(block))]
    assert not problems, "\n".join(problems)
