"""The rabbitmqadmin that a node serves: as RabbitMQ's, and where that one fails, better."""

import os
import subprocess
import sys

import pytest

from leveret.mgmt.rabbitmqadmin.program import main
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def run(served_rabbitmqadmin, tmp_path):
    """Runs a program with a home directory of its own; the served one unless another is given."""

    def run(*arguments, program=served_rabbitmqadmin, text=b""):
        return subprocess.run(
            [sys.executable, program, *map(str, arguments)], input=text, capture_output=True,
            timeout=PATIENCE_SECONDS, check=False, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip

    return run


@pytest.fixture
def where(node, vhost):
    return "-P", node.http_port, "-V", vhost


@pytest.fixture
def objects(channel, node, vhost):
    channel.queue_declare("long name of a queue", durable=True, arguments={"x-max-length": 5})
    channel.queue_declare("é")
    channel.queue_bind("é", "amq.topic", "a.#")
    node.put(f"policies/{vhost}/p", {"pattern": "^a", "definition": {"max-length": 5}})


SAME = [
    *(f"-f {form} list queues name durable arguments.x-max-length vhost"
      for form in ("tsv", "long", "table", "kvp", "bash", "pretty_json", "raw_json")),
    "list queues", "-f tsv -q list queues name", "-S name -R list queues name", "list bindings",
    "-f kvp list policies", "-q list consumers", "-d 2 -f tsv list policies", "list nothing",
    "declare", "declare cow name=a", "declare queue", "declare queue q",
    "declare queue name=q cow=1", "delete queue name=none", "nonsense", "help nonsense", "",
    "get queue=none", "get queue=é count=2 payload_file=x", "-p wrong list users",
    "-c none list queues", "declare exchange name=amq.x type=topic",
]  # fmt: skip


def test_results_and_refusals_are_those_of_rabbitmqs_program(
    run, where, objects, rabbitmqs_own, monkeypatch, capfd
):
    for command in SAME:
        theirs = run(*where, *command.split(), program=rabbitmqs_own)
        monkeypatch.setattr(sys, "argv", ["rabbitmqadmin", *map(str, where), *command.split()])
        code, shown = main(), capfd.readouterr()
        found = (code, shown.out.encode(), shown.err.encode())
        assert found == (theirs.returncode, theirs.stdout, theirs.stderr), command


@pytest.mark.parametrize("python", [(), (sys.executable, "-I", "-S")], ids=["itself", "alone"])
def test_the_file_runs_by_itself_and_without_other_packages(served_rabbitmqadmin, python):
    command = [*python, served_rabbitmqadmin, "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("rabbitmqadmin 3.10")


def test_options_come_from_the_file_and_the_command_line_comes_first(run, node, vhost, tmp_path):
    node.put(f"queues/{vhost}/q")
    config = tmp_path / ".rabbitmqadmin.conf"
    config.write_text(f"""\
[default]
port = {node.http_port}
username = nobody
password = 50%
vhost = {vhost}
format = tsv

[other]
port = {node.http_port}
vhost = {vhost}  # of the orders
format = kvp
""")
    assert run("list", "queues", "name").stderr.startswith(b"*** Access refused: /api/queues")
    assert run("-u", "guest", "-p", "guest", "list", "queues", "name").stdout == b"name\nq\n"
    assert run("-N", "other", "list", "queues", "name").stdout == b'name="q"\n'
    assert b"Could not read section 'none'" in run("-N", "none", "list", "queues").stderr
    uri = f"http://guest:guest@localhost:{node.http_port}"
    assert run("-U", uri, "-f", "kvp", "list", "queues", "name").stdout == b'name="q"\n'


def test_a_payload_that_is_not_text_goes_in_and_comes_out(run, where, node, vhost, tmp_path):
    node.put(f"queues/{vhost}/q")
    payload, path = bytes(range(256)), tmp_path / "payload"
    assert run(*where, "publish", "routing_key=q", text=payload).stdout == b"Message published\n"
    got = run(*where, "get", "queue=q", "ackmode=ack_requeue_false", f"payload_file={path}")
    assert b"payload_bytes" in got.stdout
    assert path.read_bytes() == payload
    assert run(*where, "get", "queue=q", f"payload_file={path}").stdout == b"No items\n"


def test_columns_without_a_value_are_empty(run, where, channel):
    channel.queue_declare("q")
    shown = run(*where, "-f", "tsv", "list", "queues", "name", "policy").stdout
    assert shown == b"name\tpolicy\nq\t\n"


def test_no_error_has_a_traceback(run, where, node, tmp_path):
    for arguments in (
        ("-P", 1, "list", "queues"), ("-P", "x", "list", "queues"), ("list",),
        (*where, "declare", "queue", "name="), (*where, "declare", "user", "name=a", "tags="),
        (*where, "declare", "policy", "name=p", "pattern=a", "definition={"),
        (*where, "import", tmp_path / "none"), (*where, "export", tmp_path / "none" / "x"),
    ):  # fmt: skip
        done = run(*arguments)
        assert done.returncode == 1, arguments
        assert b"Traceback" not in done.stderr, arguments


def test_help_names_every_command(run):
    shown = run("help", "subcommands").stdout.decode()
    for command in ("list vhost_limits", "declare user name=... password=... OR password_hash=...",
                    "delete binding", "publish routing_key=...", "get queue=..."):  # fmt: skip
        assert command in shown
    assert b"--base-uri" in run("--help").stdout
    assert b"[default]" in run("help", "config").stdout


def test_bash_completes_commands_and_kinds(run, tmp_path):
    script = tmp_path / "completion"
    script.write_bytes(run("--bash-completion").stdout)
    code = (
        f"source {script}; COMP_WORDS=(rabbitmqadmin list ex); COMP_CWORD=2; _rabbitmqadmin; "
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(rabbitmqadmin pu); COMP_CWORD=1; _rabbitmqadmin; '
        'echo "${COMPREPLY[@]}"'
    )
    shown = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "exchanges\npurge publish\n"
