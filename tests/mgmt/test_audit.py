"""Who changed what is in the node's log and in the audit log, whichever way it was asked for."""

import getpass
from urllib.parse import quote

import pika

from tests.forked_programs import run_program


def control(node, *arguments):
    done = run_program("leveretctl", "--data-dir", node.data_dir, *arguments)
    assert done.returncode == 0, done.stderr


def test_a_change_by_http_has_the_user_and_its_address(node):
    node.put("users/ann", {"password": "secret", "tags": "monitoring"})
    tags, created = node.acts(name="ann")
    assert created["action"] == "user.created"
    assert tags["detail"] == {"tags": ["monitoring"]}
    assert (tags["user"], tags["address"], tags["way"]) == ("guest", "127.0.0.1", "HTTP")
    by = "(requested by user 'guest' from 127.0.0.1 by HTTP)"
    assert f"Created user 'ann' {by}" in node.log
    assert f"Successfully set user tags for user 'ann' to [monitoring] {by}" in node.log
    assert "secret" not in str([tags, created]) + node.log


def test_a_change_by_leveretctl_has_the_user_of_the_system(node, vhost):
    control(node, "set_permissions", "-p", vhost, "guest", "a", "b", "c")
    line = node.acts(vhost=vhost)[0]
    assert (line["user"], line["way"]) == ("leveretctl", "leveretctl")
    assert line["address"] == f"system user {getpass.getuser()}"
    text = f"Successfully set permissions for user 'guest' in virtual host '{vhost}' to 'a', 'b'"
    assert text in node.log
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})


def test_a_purge_and_a_deletion_by_a_client_have_its_port(node, vhost):
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, vhost))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"one")
    channel.queue_purge("q")
    channel.queue_delete("q")
    connection.close()
    deleted, purged = node.acts(vhost=vhost)[:2]
    assert (purged["action"], purged["detail"]) == ("queue.purged", {"messages": 1})
    assert (deleted["action"], deleted["name"]) == ("queue.deleted", "q")
    assert deleted["way"] == "AMQP"
    assert deleted["address"].startswith("127.0.0.1:")


def test_a_queue_that_management_declares_purges_and_deletes(node, vhost):
    node.put(f"queues/{vhost}/q", {"durable": True})
    node.delete(f"queues/{vhost}/q/contents")
    node.delete(f"queues/{vhost}/q")
    lines = node.acts(vhost=vhost)[:3]
    assert [line["action"] for line in lines] == ["queue.deleted", "queue.purged", "queue.created"]
    assert {line["address"] for line in lines} == {"127.0.0.1"}


def test_an_import_says_how_much_it_has(node, vhost):
    queues = [{"name": f"q{n}", "durable": True, "arguments": {}} for n in range(30)]
    policies = [{"name": "p", "pattern": "", "definition": {"max-length": 9}}]
    node.post(f"definitions/{vhost}", {"queues": queues, "policies": policies})
    policy = node.acts(vhost=vhost)[0]
    (imported,) = node.acts(vhost=vhost, action="definitions.imported")
    assert (policy["action"], policy["way"]) == ("policy.set", "definitions")
    assert imported["detail"] == {"policies": 1, "queues": 30}
    asked = f"Virtual host: '{vhost}', acting user: 'guest'. They have 1 policies, 30 queues"
    assert f"Asked to import definitions for a virtual host. {asked}" in node.log


def test_an_import_of_the_whole_node(node):
    name = "parameter-of-an-import"
    node.post("definitions", {"global_parameters": [{"name": name, "value": 1}]})
    node.delete(f"global-parameters/{name}")
    imports = node.acts(action="definitions.imported", vhost="")
    assert {"global_parameters": 1} in [line["detail"] for line in imports]
    assert "Asked to import definitions. Acting user: guest. They have 1 global param" in node.log


def test_a_closed_connection(node, vhost, channel):
    name = node.get(f"vhosts/{vhost}/connections")[0]["name"]
    node.delete(f"connections/{quote(name, safe='')}", headers={"X-Reason": "too greedy"})
    # Another connection from the same port may have had this name before.
    line, *_ = node.acts(name=name, vhost=vhost)
    assert line["action"] == "connection.closed"
    assert f"Closing connection {name} because 'too greedy' (requested by user 'guest'" in node.log
