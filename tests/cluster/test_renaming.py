"""Nodes of a cluster get new names, one at a time or all at once, and keep their queues."""

from tests.cluster.clients import PERSISTENT


def put(node, queue, body):
    with node.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "amq.topic", queue)
        channel.confirm_delivery()
        channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def published_and_taken(node, queue):
    """The bodies in a queue, after another one was routed to it by its binding."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", queue, b"after", PERSISTENT, mandatory=True)
        return [channel.basic_get(queue, auto_ack=True)[2] for _ in range(2)]


def rename(node, *names):
    """Rename nodes in the files of one of them, whose new name is the second one."""
    node.ctl("--node", names[1], "rename_cluster_node", *names)
    node.name = names[1]


def test_a_node_is_renamed_while_the_others_run(nodes):
    a, b = nodes
    old, new = b.name, "beta@127.0.0.1"
    put(b, "of-b", b"before")
    put(a, "of-a", b"before")
    b.stop()
    text = b.ctl("--node", new, "rename_cluster_node", old, a.name, succeeds=False)
    assert f"already the name of a member: {a.name}" in text
    rename(b, old, new)
    b.start()
    assert published_and_taken(a, "of-b") == [b"before", b"after"]
    assert published_and_taken(b, "of-a") == [b"before", b"after"]
    for node in nodes:
        shown = node.ctl("cluster_status")
        assert new in shown
        assert old not in shown
    b.stop()
    b.start()
    a.ctl("await_online_nodes", "2")


def test_all_nodes_are_renamed_at_once(nodes):
    a, b = nodes
    put(a, "of-a", b"before")
    put(b, "of-b", b"before")
    names_of_a, names_of_b = (a.name, "alpha@127.0.0.1"), (b.name, "beta@127.0.0.1")
    b.stop()
    put(a, "missed", b"before")
    a.stop()
    rename(a, *names_of_a, *names_of_b)
    rename(b, *names_of_b, *names_of_a)
    b.start(waits=False)
    a.start()
    b.wait_for_log(" ready in")
    assert published_and_taken(b, "of-a") == [b"before", b"after"]
    assert published_and_taken(a, "of-b") == [b"before", b"after"]
    assert published_and_taken(b, "missed") == [b"before", b"after"]
    # The cluster keeps its name, which is that of its first node.
    shown = b.ctl_json("cluster_status")
    assert shown["disk_nodes"] == sorted(shown["running_nodes"]) == [a.name, b.name]
    assert shown["cluster_name"] == names_of_a[0]
