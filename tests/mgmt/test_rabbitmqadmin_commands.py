"""rabbitmqadmin against a node: RabbitMQ's own, from Debian's package, and the served one.

Every output format, every kind of object, and refusals. test_rabbitmqadmin_served.py runs both in
processes of their own.
"""

import io
import json
import runpy
import signal
import subprocess
import sys

import pytest

from leveret.mgmt.rabbitmqadmin.program import main


@pytest.fixture(params=["RabbitMQ's", "served"])
def run(request, node, vhost, capfd, monkeypatch):
    """Run either program of this name; returns exit code and both outputs.

    They run in this process: to start one takes five times as long as a command.
    """

    def call():
        """Return the exit code, or raise SystemExit with it."""
        if request.param == "served":
            return main()
        # It has the signal of a closed pipe end its process, which is that of other tests here.
        handler = signal.getsignal(signal.SIGPIPE)
        try:
            runpy.run_path(str(request.getfixturevalue("rabbitmqs_own")), run_name="__main__")
        finally:
            signal.signal(signal.SIGPIPE, handler)
        return 0

    def run(*arguments, text=""):
        words = [*map(str, ["-P", node.http_port, "-V", vhost, *arguments])]
        monkeypatch.setattr(sys, "argv", ["rabbitmqadmin", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        try:
            code = call()
        except SystemExit as ended:
            code = ended.code
        return subprocess.CompletedProcess(words, code, *capfd.readouterr())

    return run


@pytest.fixture
def admin(run):
    """Run the script successfully; returns its output."""

    def admin(*arguments, **options):
        done = run(*arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return admin


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.parametrize("form", ["raw_json", "pretty_json", "tsv", "long", "table", "kvp", "bash"])
def test_lists_come_in_every_format(admin, form):
    admin("declare", "queue", "name=q", "durable=true", 'arguments={"x-max-length": 5}')
    columns = ("name",) if form == "bash" else ("name", "durable", "arguments.x-max-length")
    shown = admin("-f", form, "list", "queues", *columns)
    assert "q" in shown
    if form.endswith("json"):
        assert json.loads(shown) == [
            {"name": "q", "durable": True, "arguments": {"x-max-length": 5}}
        ]
    if form == "tsv":
        assert rows(shown) == [["name", "durable", "arguments.x-max-length"], ["q", "True", "5"]]


def test_lists_are_sorted_and_show_nested_values(admin):
    for name in ("b", "c", "a"):
        admin("declare", "queue", f"name={name}")
    assert rows(admin("-f", "tsv", "-S", "name", "-R", "list", "queues", "name")) == [
        ["name"], ["c"], ["b"], ["a"]
    ]  # fmt: skip
    assert "mem_used" in admin("-f", "tsv", "-d", "3", "list", "nodes")
    assert "object_totals.queues" in admin("-f", "tsv", "-d", "3", "show", "overview")


def test_everything_can_be_listed(admin):
    for name in ("users", "vhosts", "connections", "exchanges", "bindings", "permissions",
                 "channels", "consumers", "parameters", "policies", "queues", "nodes",
                 "vhost_limits", "operator_policies"):  # fmt: skip
        admin("list", name)
    assert "rabbitmq_version" in admin("show", "overview")


def test_a_message_goes_in_from_standard_input_and_comes_out_into_a_file(admin, tmp_path):
    admin("declare", "queue", "name=q", "auto_delete=false", "durable=false")
    properties = 'properties={"delivery_mode": 2, "headers": {"h": 1}}'
    admin("publish", "routing_key=q", properties, text="from a pipe")
    path = tmp_path / "payload"
    admin("get", "queue=q", "ackmode=ack_requeue_true", f"payload_file={path}")
    assert path.read_text() == "from a pipe"
    found = json.loads(admin("-f", "raw_json", "get", "queue=q", "count=5", "encoding=base64"))
    assert [(one["payload"], one["properties"]) for one in found] == [
        ("ZnJvbSBhIHBpcGU=", {"delivery_mode": 2, "headers": {"h": 1}})
    ]
    table = admin("get", "queue=q", "ackmode=ack_requeue_false")
    assert "from a pipe" in table
    assert "message_count" in table
    assert admin("get", "queue=q", "count=1") == "No items\n"
    assert admin("publish", "routing_key=q", "payload=again") == "Message published\n"
    admin("purge", "queue", "name=q")
    assert admin("get", "queue=q", "count=1") == "No items\n"


def test_a_message_without_a_queue_is_told(admin):
    assert "NOT routed" in admin("publish", "exchange=amq.direct", "routing_key=none", "payload=x")


def test_bindings_are_deleted_by_their_key(admin):
    admin("declare", "queue", "name=q")
    for key in ("plain", "with.dot", "dash-ed"):
        binding = ("source=amq.topic", "destination=q", "destination_type=queue")
        admin("declare", "binding", *binding, f"routing_key={key}", 'arguments={"k": 1}')
    listed = json.loads(admin("-f", "raw_json", "list", "bindings"))
    ours = [one for one in listed if one["source"] == "amq.topic"]
    assert {one["routing_key"] for one in ours} == {"plain", "with.dot", "dash-ed"}
    for one in ours:
        admin("delete", "binding", "source=amq.topic", "destination_type=queue", "destination=q",
              f"properties_key={one['properties_key']}")  # fmt: skip
    assert "amq.topic" not in admin("list", "bindings")


KINDS = (
    ("exchanges", ("exchange", "name=made"), ("type=headers",)),
    ("queues", ("queue", "name=made"), ("queue_type=classic",)),
    ("vhosts", ("vhost", "name=made"), ("tracing=true",)),
    ("users", ("user", "name=made"), ("password_hash=", "tags=")),
    ("policies", ("policy", "name=made"), ("pattern=a", 'definition={"max-length":1}',
                                           "apply-to=queues")),
    ("operator_policies", ("operator_policy", "name=made"),
     ("pattern=a", 'definition={"max-length":1}', "priority=2")),
    ("vhost_limits", ("vhost_limit", "name=max-queues"), ("value=7",)),
)  # fmt: skip


@pytest.mark.parametrize(("listing", "what", "options"), KINDS, ids=[kind[0] for kind in KINDS])
def test_declared_objects_are_listed_and_deleted(admin, vhost, listing, what, options):
    kind, name = what[0], what[1].partition("=")[2]
    place = (f"vhost={vhost}",) if kind == "vhost_limit" else ()
    assert admin("declare", *what, *place, *options) == f"{kind} declared\n"
    assert name in admin("-f", "tsv", "list", listing)
    assert admin("delete", *what, *place) == f"{kind} deleted\n"
    assert name not in admin("-f", "tsv", "list", listing)


def test_a_permission_is_declared(admin, node, vhost):
    permission = ("configure=a", "write=b", "read=c")
    admin("declare", "permission", f"vhost={vhost}", "user=guest", *permission)
    assert node.get(f"permissions/{vhost}/guest")["read"] == "c"


def test_a_connection_is_closed(admin, node, vhost, channel):
    def ours():
        listed = json.loads(admin("-f", "raw_json", "list", "connections", "name", "vhost"))
        return [one["name"] for one in listed if one["vhost"] == vhost]

    node.wait_until(ours, "the connection is listed")
    assert admin("close", "connection", f"name={ours()[0]}") == "connection closed\n"
    node.wait_until(lambda: not ours(), "the connection is closed")


def test_definitions_of_one_vhost_come_back(admin, node, vhost, tmp_path):
    admin("declare", "queue", "name=kept", "durable=true")
    admin("declare", "binding", "source=amq.fanout", "destination=kept")
    path = tmp_path / "definitions.json"
    assert "Exported definitions" in admin("export", path)
    admin("delete", "queue", "name=kept")
    assert "Uploaded definitions" in admin("import", path)
    assert node.get(f"queues/{vhost}/kept?columns=durable") == {"durable": True}
    assert len(node.get(f"bindings/{vhost}/e/amq.fanout/q/kept")) == 1


REFUSED = (
    (("delete", "queue", "name=none"), "Not found: /api/queues"),
    (("declare", "exchange", "name=x", "type=nonsense"), "unknown exchange type"),
    (("declare", "exchange", "name=amq.x", "type=topic"), "refused"),
    (("publish", "exchange=none", "routing_key=a", "payload=x"), "no exchange 'none'"),
    (("-p", "wrong", "list", "queues"), "Access refused"),
    (("declare", "policy", "name=p", "pattern=a", 'definition={"none":1}'), "not recognised"),
)


@pytest.mark.parametrize(("arguments", "told"), REFUSED)
def test_refusals_say_why(run, arguments, told):
    done = run(*arguments)
    assert done.returncode == 1
    assert told in done.stdout + done.stderr
