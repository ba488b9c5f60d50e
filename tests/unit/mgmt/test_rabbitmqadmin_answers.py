"""The served rabbitmqadmin says so in a sentence when what answers is not the management API."""

import sys

import pytest

from leveret.mgmt.rabbitmqadmin.api import Api
from leveret.mgmt.rabbitmqadmin.program import main

PAGE = "<!doctype html><title>Welcome</title>" + "x" * 1000
NO_API = "*** No management API answers at localhost:15672. It sent: "
NO_JSON = ("", PAGE, "[1", "[" * 100_000)
NO_LIST = ("null", "5", '{"error": "none"}', "[5]", '["q"]', "[null]")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command whose requests have this answer: its exit code, and its standard error."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(answer, *words):
        monkeypatch.setattr(Api, "request", lambda *_request: answer)
        monkeypatch.setattr(sys, "argv", ["rabbitmqadmin", *words])
        return main(), capsys.readouterr().err

    return run


@pytest.mark.parametrize("answer", [*NO_JSON, *NO_LIST], ids=range(len(NO_JSON + NO_LIST)))
@pytest.mark.parametrize(
    "command",
    ["list queues", "-f tsv list queues name", "get queue=q", "get queue=q payload_file="],
)
def test_no_list(run, tmp_path, command, answer):
    words = command.replace("payload_file=", f"payload_file={tmp_path}/payload").split()
    code, shown = run(answer, *words)
    assert code == 1
    assert shown == f"{NO_API}{answer[:100]!r}\n\n"


@pytest.mark.parametrize("answer", NO_JSON, ids=range(len(NO_JSON)))
@pytest.mark.parametrize(
    "command", ["-f raw_json list queues", "-f pretty_json list queues", "export definitions"]
)
def test_no_json(run, tmp_path, monkeypatch, command, answer):
    monkeypatch.chdir(tmp_path)
    code, shown = run(answer, *command.split())
    assert code == 1
    assert shown == f"{NO_API}{answer[:100]!r}\n\n"
    assert not (tmp_path / "definitions").exists()


@pytest.mark.parametrize("answer", [*NO_JSON, "null", "[]"])
@pytest.mark.parametrize("command", ["publish routing_key=q payload=a", "show overview"])
def test_no_object(run, command, answer):
    code, shown = run(answer, *command.split())
    assert (code, shown) == (1, f"{NO_API}{answer[:100]!r}\n\n")


def test_neither_routed_nor_not(run):
    code, shown = run("{}", "publish", "routing_key=q", "payload=a")
    assert (code, shown) == (1, f"{NO_API}'{{}}'\n\n")


def test_no_message(run, tmp_path):
    for answer in ("[{}]", '[{"payload": "a", "payload_encoding": "base64"}]'):
        code, shown = run(answer, "get", "queue=q", f"payload_file={tmp_path}/payload")
        assert (code, shown) == (1, f"{NO_API}{answer!r}\n\n")
