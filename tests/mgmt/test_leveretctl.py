"""`leveretctl` against a node over its control socket: what RabbitMQ's tools do not show.

Output and exit codes of most commands are in test_leveretctl_recorded.py.
"""

import json
import os
import socket
import subprocess
import sys

import pika
import pytest

from tests.mgmt.ctl_command import Ctl, run_command
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def ctl(node):
    return Ctl(node)


def test_arguments_in_json_have_the_types_that_clients_gave_them(ctl, node, vhost, channel):
    def listed(command, *columns):
        return json.loads(ctl(command, "-p", vhost, *columns, "--formatter", "json"))

    node.put(f"queues/{vhost}/http", {"arguments": {"x-max-length": 5}})
    arguments = {"x-max-length": 5, "x-expires": 5_000_000_000}
    channel.queue_declare("amqp", arguments=arguments)
    assert listed("list_queues", "arguments") == [
        {"arguments": [["x-max-length", "signedint", 5], ["x-expires", "long", 5_000_000_000]]},
        {"arguments": [["x-max-length", "long", 5]]},
    ]
    nested = {"t": {"n": None, "l": [1, "two"]}, "b": True}
    channel.queue_bind("amqp", "amq.headers", arguments=nested)
    assert listed("list_bindings", "source_name", "arguments")[-1]["arguments"] == [
        ["b", "bool", True],
        ["t", "table", [["n", "void", "undefined"],
                        ["l", "array", [["signedint", 1], ["longstr", "two"]]]]],
    ]  # fmt: skip
    channel.basic_consume("amqp", print, arguments={"x-priority": 3})
    assert listed("list_consumers", "arguments") == [
        {"arguments": [["x-priority", "signedint", 3]]}
    ]
    properties = [dict.fromkeys((name for name, *_ in one["client_properties"]))
                  for one in listed("list_connections", "client_properties")]  # fmt: skip
    assert any("product" in one for one in properties)


def test_addresses_in_json_are_lists(ctl, channel):
    shown = json.loads(ctl("list_connections", "host", "peer_host", "--formatter", "json"))
    assert {"host": [127, 0, 0, 1], "peer_host": [127, 0, 0, 1]} in shown


def test_a_quorum_queue_is_shown_with_its_type_and_its_one_member(ctl, node, vhost):
    node.put(f"queues/{vhost}/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    node.put(f"queues/{vhost}/c", {"durable": True})
    name = node.get("overview")["node"]
    assert ctl("-s", "list_queues", "-p", vhost, "name", "type", "leader", "members", "online") == (
        f"c\tclassic\t\t\t\nq\tquorum\t{name}\t[{name}]\t[{name}]\n"
    )
    assert ctl("-s", "list_queues", "-p", vhost, "name", "messages_dlx", "message_bytes_dlx") == (
        "c\t\t\nq\t0\t0\n"
    )
    (status,) = json.loads(ctl("quorum_status", "-p", vhost, "q", "--formatter", "json"))
    assert (status["Node Name"], status["Raft State"]) == (name, "leader")
    assert (status["Snapshot Index"], status["Term"]) == (0, 1)
    shown = ctl("quorum_status", "-p", vhost, "q")
    assert shown.startswith(f"Status of quorum queue q on node {name} ...\n┌─")
    assert ctl.fails("quorum_status", "-p", vhost, "c") == (
        69, "Error:\nCannot get quorum status of a classic queue\n"
    )  # fmt: skip
    assert ctl.fails("quorum_status", "-p", vhost, "none") == (69, "Error:\nnot_found\n")


def test_definitions_go_out_and_in(ctl, node, vhost, tmp_path):
    node.put(f"queues/{vhost}/q", {"durable": True})
    path = tmp_path / "definitions.json"
    ctl("export_definitions", path)
    node.delete(f"queues/{vhost}/q")
    shown = ctl("import_definitions", path, "--dry-run")
    assert f"+ queue 'q' in vhost '{vhost}'" in shown
    assert node.request("GET", f"queues/{vhost}/q").status == 404
    ctl("import_definitions", path)
    assert node.get(f"queues/{vhost}/q")["durable"]
    shown = json.loads(ctl("export_definitions", "-"))
    assert shown["queues"]
    assert "internal_cluster_id" not in [one["name"] for one in shown["global_parameters"]]
    assert "internal_cluster_id" in ctl("list_global_parameters")
    assert ctl.fails("import_definitions", "-", stdin="{bad")[0] == 65
    assert ctl.fails("import_definitions", tmp_path / "none")[0] == 65


def test_all_that_is_wrong_with_definitions_is_told(ctl, node, vhost):
    missing = {"name": "q", "vhost": "nowhere", "durable": True, "arguments": {}}
    text = json.dumps({"queues": [missing, {**missing, "name": "r"}]})
    code, errors = ctl.fails("import_definitions", "-", stdin=text)
    assert (code, errors.count("no_such_vhost: nowhere")) == (69, 2)
    done = ctl.run("import_definitions", "--dry-run", stdin=text)
    assert (done.returncode, done.stdout.count("x queues[")) == (65, 2)


def test_the_node_is_looked_at(ctl, node):
    status = json.loads(ctl("status", "--formatter", "json"))
    assert (status["node"], status["is_running"]) == (node.name, True)
    assert "Node name: " + node.name in ctl("status")
    assert ctl("ping").endswith("Ping succeeded\n")
    assert ctl("check_running").endswith("is fully booted and running\n")
    assert ctl("check_local_alarms").endswith("reported no local alarms\n")
    assert str(node.http_port) in ctl("check_port_connectivity")
    assert ctl.fails("check_port_listener", "1")[0] == 69
    ctl("check_port_listener", node.port)
    ctl("check_protocol_listener", "amqp091")
    assert f"port: {node.port}, protocol: amqp" in ctl("listeners")
    assert ctl("-q", "server_version") == "3.12.14\n"
    assert "code: " in ctl("memory_breakdown", "--unit", "mb")
    assert "Cluster name: " in ctl("cluster_status")
    assert "channel_max = 2047" in ctl("environment")
    assert "Listing users" in ctl("report")
    assert "queue" in ctl("observer", "--once")


def test_names_in_any_language_and_bytes_that_are_not_text(ctl, node, vhost):
    node.put(f"queues/{vhost}/%E9%98%9F%E5%88%97", {"durable": True})
    assert "队列\t0\n" in ctl("list_queues", "-p", vhost)
    assert ctl.fails("add_vhost", b"\xff")[0] == 65
    done = subprocess.run(
        [sys.executable, "-m", "leveret.mgmt.ctl.leveretctl", "--data-dir", node.data_dir,
         "list_queues", "-p", vhost],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, "\\u961f\\u5217\t0\n" in done.stdout) == (0, True)


def test_a_dry_run_does_nothing(ctl, node, vhost):
    node.put(f"queues/{vhost}/q", {"durable": True})
    shown = ctl("delete_queue", "-p", vhost, "q", "--dry-run")
    assert shown == f"Deleting queue 'q' on vhost '{vhost}' ...\n"
    assert node.get(f"queues/{vhost}/q")["durable"]
    assert ctl("shutdown", "--dry-run") == ""
    assert "and halting" in ctl("stop", "--dry-run")
    ctl("check_running")


def test_a_hashed_password_is_as_good_as_the_password(ctl, node, vhost):
    hashed = ctl("-q", "hash_password", "secret").strip()
    user = f"{vhost}-hashed"
    ctl("add_user", user, hashed, "--pre-hashed-password")
    ctl("authenticate_user", user, "secret")
    assert ctl.fails("add_user", "x", "no base 64", "--pre-hashed-password")[0] == 65
    assert ctl.fails("add_user", "x")[0] == 65


def test_a_connection_is_closed_by_its_pid(ctl, node, vhost, channel):
    rows = ctl("-s", "list_connections", "pid", "vhost").splitlines()
    pid = next(row.split()[0] for row in rows if row.split()[1] == vhost)
    ctl("close_connection", pid, "go away")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="go away"):
        channel.connection.process_data_events(PATIENCE_SECONDS)
    assert ctl.fails("close_connection", "nobody", "x")[0] == 69


def test_over_the_network_the_routes_of_the_node_are_closed(node):
    url = ["--url", f"http://127.0.0.1:{node.http_port}"]
    done = run_command(*url, "list_users")
    assert (done.returncode, "guest" in done.stdout) == (0, True)
    done = run_command(*url, "stop_app")
    assert (done.returncode, "control socket" in done.stderr) == (64, True)
    assert node.request("GET", "node/status").status == 404


def test_listeners_are_suspended_and_resumed(own_node):
    ctl = Ctl(own_node)
    address = ("127.0.0.1", own_node.port)
    connected = pika.BlockingConnection(pika.ConnectionParameters(*address))
    ctl("suspend_listeners")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(address, PATIENCE_SECONDS)
    connected.channel().queue_declare("still-served")
    code, text = ctl.fails("check_port_connectivity")
    assert (code, f"port: {own_node.port}, protocol: amqp" in text) == (69, True)
    ctl("resume_listeners")
    ctl("check_port_connectivity")
    socket.create_connection(address, PATIENCE_SECONDS).close()
    ctl("drain")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        connected.process_data_events(PATIENCE_SECONDS)
    assert "Is under maintenance?: true" in ctl("status")
    ctl("revive")
    socket.create_connection(address, PATIENCE_SECONDS).close()
    assert "Is under maintenance?: false" in ctl("status")


def test_waiting_for_a_process_and_shutting_it_down(own_node, tmp_path):
    ctl = Ctl(own_node)
    pid_file = tmp_path / "pid"
    pid_file.write_text(f"{own_node.process.pid}\n")
    assert f"pid is {own_node.process.pid}" in ctl("wait", pid_file)
    ctl("wait", "--pid", own_node.process.pid)
    assert ctl.fails("wait", "-P", 2**22 + 1) == (
        69, f"Error:\nprocess {2**22 + 1} is not running\n"
    )  # fmt: skip
    assert ctl.fails("wait", tmp_path / "none", "--timeout", "0")[0] == 75
    ctl("shutdown")
    assert own_node.process.wait(PATIENCE_SECONDS) == 0
    code, text = ctl.fails("stop")
    assert (code, "does not exist" in text) == (69, True)
    ctl("stop", "--idempotent")


def stored(node):
    """The messages in the stream `log`."""
    return node.get("stream/%2F/log/messages?offset=first")["messages"]


def test_stopping_resetting_and_starting(own_node):
    ctl = Ctl(own_node)
    stream = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    message = {"routing_key": "log", "payload": "old", "payload_encoding": "string"}
    own_node.put("queues/%2F/kept", {"durable": True})
    own_node.put("queues/%2F/log", stream)
    own_node.post("exchanges/%2F/amq.default/publish", {**message, "properties": {}})
    own_node.wait_until(lambda: stored(own_node))
    ctl("stop_app")
    assert ctl.fails("check_running")[0] == 69
    assert own_node.request("GET", "overview").status == 503
    ctl("start_app")
    ctl("await_startup")
    assert own_node.get("queues/%2F/kept")["durable"]
    own_node.wait_until(lambda: [one["payload"] for one in stored(own_node)] == ["old"])
    directories = own_node.data_dir / "streams" / "logs"
    assert len(list(directories.iterdir())) == 1
    assert ctl.fails("reset")[0] == 64
    ctl("stop_app")
    ctl("reset")
    ctl("start_app")
    assert own_node.get("queues") == []
    assert list(directories.glob("*")) == []
    own_node.put("queues/%2F/log", stream)
    assert stored(own_node) == []
    ctl("rotate_logs")
    ctl("stop")
    assert own_node.process.wait(PATIENCE_SECONDS) == 0


def test_arguments_of_cluster_commands_are_checked_before_the_node_is_asked(ctl):
    no_type = "The node type must be either disc or ram."
    for words, reason in (
        (("join_cluster", "--ram", "--disc", "b@host"), no_type),
        (("change_cluster_node_type", "x"), no_type),
        (("rename_cluster_node", "a@h", "b@h", "a@h", "c@h"), "A node is given two new names"),
        (("rename_cluster_node", "a@h", "b@h", "c@h"), "Argument list should contain even number"),
    ):
        code, text = ctl.fails(*words)
        assert code == 65
        assert f"Bad argument: {reason}" in text


def test_a_file_that_was_not_discarded_is_named(ctl):
    for words in (("list_discarded", "../etc"), ("publish_discarded", "../etc")):
        code, text = ctl.fails(*words)
        assert code == 69
        assert "nothing to a file ../etc: 'leveretctl list_discarded'" in text
