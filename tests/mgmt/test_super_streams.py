"""Super streams: declared and deleted by commands and by the API."""

import pytest

from tests.mgmt.ctl_command import Ctl


@pytest.fixture
def ctl(node):
    return Ctl(node)


def partitions(node, vhost, name):
    """The bindings of the partitions: the stream, the key and the order."""
    bindings = node.get(f"exchanges/{vhost}/{name}/bindings/source")
    return sorted(
        (one["arguments"]["x-stream-partition-order"], one["destination"], one["routing_key"])
        for one in bindings
    )


def test_partitions_by_number(node, vhost, ctl):
    ctl("add_super_stream", "s", "-p", vhost, "--partitions", "2", "--max-age", "7D",
        "--max-length-bytes", "1000")  # fmt: skip
    exchange = node.get(f"exchanges/{vhost}/s")
    assert (exchange["type"], exchange["durable"]) == ("direct", True)
    assert exchange["arguments"] == {"x-super-stream": True}
    assert partitions(node, vhost, "s") == [(0, "s-0", "0"), (1, "s-1", "1")]
    assert node.get(f"queues/{vhost}/s-1")["arguments"] == {
        "x-queue-type": "stream", "x-max-age": "7D", "x-max-length-bytes": 1000,
    }  # fmt: skip
    ctl("delete_super_stream", "s", "-p", vhost)
    assert node.get(f"queues/{vhost}") == []
    code, said = ctl.fails("delete_super_stream", "s", "-p", vhost)
    assert (code, said) == (69, f"Error:\nthere is no super stream 's' in vhost '{vhost}'\n")


def test_partitions_by_keys(node, vhost, ctl):
    ctl("add_super_stream", "s", "-p", vhost, "--binding-keys", "emea, apac")
    assert partitions(node, vhost, "s") == [(0, "s-emea", "emea"), (1, "s-apac", "apac")]
    _, said = ctl.fails("add_super_stream", "s", "-p", vhost, "--binding-keys", "other")
    assert "there is an exchange 's'" in said


@pytest.mark.parametrize(
    "options",
    [
        ("--partitions", "0"), ("--partitions", "1001"), ("--partitions", "many"),
        ("--binding-keys", "a,a"), ("--binding-keys", "a,,b"),
        ("--partitions", "2", "--binding-keys", "a,b"), ("--max-length-bytes", "much"),
    ],
)  # fmt: skip
def test_what_is_refused(vhost, ctl, options):
    _, said = ctl.fails("add_super_stream", "s", "-p", vhost, *options)
    assert options[0].removeprefix("--").split("-")[0] in said


def test_nothing_is_left_of_one_that_is_refused(node, vhost, ctl):
    _, said = ctl.fails("add_super_stream", "s", "-p", vhost, "--max-age", "never")
    assert "x-max-age" in said
    assert node.get(f"queues/{vhost}") == []
    assert "s" not in [one["name"] for one in node.get(f"exchanges/{vhost}")]


def test_an_exchange_that_is_none_stays(node, vhost, ctl):
    node.put(f"exchanges/{vhost}/plain", {"type": "direct"})
    ctl.fails("delete_super_stream", "plain", "-p", vhost)
    assert node.get(f"exchanges/{vhost}/plain")["name"] == "plain"
