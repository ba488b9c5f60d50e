"""Completion of `leveretctl`: what is proposed, and that bash, zsh and fish insert it."""

import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from leveret.mgmt.ctl import completion
from leveret.mgmt.ctl.completion import completions
from leveret.mgmt.ctl.leveretctl import main
from tests.mgmt.ctl_command import run_command
from tests.patience import PATIENCE_SECONDS

DISCARD_LINE, TAB = "\x15", b"\t"
AGAIN_SECONDS = 3
"""A node on a busy machine may not answer as quickly as completion requires by default."""
ESCAPES = re.compile(r"\x07|\x1b(\[[0-9;?>=]*[A-Za-z]|[=>])")
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(leveretctl completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; source <(leveretctl completion zsh)",
    ),
}


@pytest.fixture
def typed(node, vhost, monkeypatch):
    """Completes words on a vhost with the queues orders, order book and orders:old."""
    monkeypatch.setattr(completion, "ANSWER_SECONDS", PATIENCE_SECONDS)
    for name in ("orders", "order book", "orders:old", "invoices"):
        node.put(f"queues/{vhost}/{name.replace(' ', '%20')}")

    def complete(*words):
        return completions(["--data-dir", str(node.data_dir), "-p", vhost, *words])

    return complete


# Names that are known without a node


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["purge_"], ["purge_queue"]),
        (["delete_queue", "--if"], ["--if-empty", "--if-unused"]),
        (["delete_queue", "q", "--if-e"], ["--if-empty"]),
        (["--form"], ["--formatter"]),
        (["list_queues", "--formatter", "c"], ["csv"]),
        (["list_queues", "--formatter=c"], ["--formatter=csv"]),
        (["list_queues", "name", "messages_rea"], [
            "messages_ready", "messages_ready_high", "messages_ready_normal", "messages_ready_ram",
            "messages_ready_returned",
        ]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["rebalance", "q"], ["quorum"]),
        (["help", "purge"], ["purge_queue"]),
        (["set_log_level", "n"], ["none", "notice"]),
        (["add_vhost", "a", "--default-queue-type", "q"], ["quorum"]),
        (["set_policy", "--apply-to", "e"], ["exchanges"]),
        (["nosuch", ""], []),
        (["ping", ""], []),
        (["delete_queue", "q", ""], []),
        (["--", "list_use"], ["list_user_limits", "list_user_permissions",
                             "list_user_topic_permissions", "list_users"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_completions_without_a_node(words, expected, tmp_path):
    assert completions(["--data-dir", str(tmp_path), *words]) == expected


def test_all_commands_are_proposed_at_first():
    assert {"list_queues", "help", "trace_log_on"} <= set(completions([""]))
    assert completions([]) == completions([""])


def test_files_are_proposed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    for name in ("definitions.json", ".hidden", "directory/deep.json"):
        (tmp_path / name).touch()
    assert completions(["import_definitions", ""]) == ["definitions.json", "directory/"]
    assert completions(["import_definitions", "directory/"]) == ["directory/deep.json"]
    assert completions(["export_definitions", f"{tmp_path}/def"]) == [
        f"{tmp_path}/definitions.json"
    ]
    assert completions(["import_definitions", "/nowhere/"]) == []
    assert completions(["--data-dir", "dir"]) == ["directory/"]


# Names of the running node


def test_names_of_queues(typed):
    assert typed("purge_queue", "ord") == ["order book", "orders", "orders:old"]
    assert typed("delete_queue", "--if-empty", "i") == ["invoices"]
    assert typed("purge_queue", "(") == []
    assert typed("purge_queue", "orders", "") == []


def test_queues_are_those_of_the_vhost(typed):
    assert typed("-p", "/", "purge_queue", "ord") == []
    assert typed("purge_queue", "-p", "nosuch", "ord") == []


def test_names_of_vhosts(typed, vhost):
    assert vhost in typed("delete_vhost", "")
    assert vhost in typed("list_queues", "-p", "v")
    assert f"--vhost={vhost}" in typed("list_queues", "--vhost=v")


def test_names_of_users(typed):
    assert typed("delete_user", "gu") == ["guest"]
    assert typed("set_permissions", "gu") == ["guest"]
    assert typed("list_user_limits", "--user", "gu") == ["guest"]


def test_no_more_names_than_a_person_reads(node, vhost, monkeypatch):
    monkeypatch.setattr(completion, "ANSWER_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(completion, "SHOWN_MAX", 2)
    for name in ("a1", "a2", "a3"):
        node.put(f"queues/{vhost}/{name}")
    found = completions(["--data-dir", str(node.data_dir), "-p", vhost, "purge_queue", "a"])
    assert found == ["a1", "a2"]


@pytest.mark.parametrize("socket", ["no socket", "a file"])
def test_without_a_node_nothing_is_proposed_and_nothing_said(socket, tmp_path, capsys):
    if socket == "a file":
        (tmp_path / "control.socket").touch()
    assert main(["autocomplete", "--", "--data-dir", str(tmp_path), "purge_queue", ""]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_shell_that_is_not_known(capsys):
    assert main(["completion", "tcsh"]) == 65
    assert "'tcsh' is not one of the shells bash, zsh, fish" in capsys.readouterr().err


# Shells


class Shell:
    """An interactive shell on a terminal, in which keys are typed."""

    def __init__(self, name, home):
        command, begin = SHELLS[name]
        self._ours, theirs = pty.openpty()
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home), "TERM": "dumb", "PS1": "> ", "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=home,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )  # fmt: skip
        os.close(theirs)
        self._text = ""
        self.press(f"{begin}; echo is{{-,-ready-}}now\n")
        self.wait_for("is-ready-now\r\n")

    def press(self, keys):
        self._text = ""
        os.write(self._ours, keys.encode())

    def wait_for(self, text):
        """Wait until the terminal shows a text."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in ESCAPES.sub("", self._text):
            assert time.monotonic() < deadline, f"{text!r} is not shown: {self._text!r}"
            ready, _, _ = select.select([self._ours], [], [], AGAIN_SECONDS)
            if ready:
                self._text += os.read(self._ours, 65536).decode(errors="replace")
            else:
                os.write(self._ours, TAB)

    def close(self):
        os.close(self._ours)
        self._process.kill()
        self._process.wait()


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    opened = Shell(request.param, tmp_path)
    yield opened
    opened.close()


def test_the_tab_key(shell, node, vhost):
    """One shell for all cases: most of the time is its start."""
    for name in ("invoices", "two%20words", "colon:one"):
        node.put(f"queues/{vhost}/{name}")
    start = f"leveretctl --data-dir {node.data_dir} -p {vhost} purge_queue "
    for keys, shown in [
        ("leveretctl purge_q\t", "purge_queue "),
        ("leveretctl delete_queue q --if-e\t", "--if-empty "),
        (f"{start}inv\t", "purge_queue invoices "),
        (f"{start}two\t", r"purge_queue two\ words "),
        (f"{start}colon:\t", "purge_queue colon:one "),
    ]:
        shell.press(keys)
        shell.wait_for(shown)
        shell.press(DISCARD_LINE)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(node, vhost, tmp_path):
    node.put(f"queues/{vhost}/two%20words")
    script = tmp_path / "leveretctl.fish"
    script.write_text(run_command("completion", "fish").stdout)
    line = f"leveretctl --data-dir {node.data_dir} -p {vhost} purge_queue tw"
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
    }  # fmt: skip

    def proposed():
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
            env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
            cwd=tmp_path,
        )  # fmt: skip
        return done.stdout.splitlines()

    node.wait_until(lambda: proposed() == ["two words"], "fish proposes the queue")
