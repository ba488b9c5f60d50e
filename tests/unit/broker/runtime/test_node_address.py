"""Names and addresses of nodes as texts."""

import pytest

from leveret.broker.runtime.node_address import (
    NodeAddress,
    host_of,
    is_node_name,
    read_node_address,
)


@pytest.mark.parametrize(
    ("text", "node", "port", "host"),
    [
        ("b@host", "b@host", None, "host"),
        ("b@host:25673", "b@host", 25673, "host"),
        ("b@127.0.0.1:1", "b@127.0.0.1", 1, "127.0.0.1"),
        ("b@node-1.example.com", "b@node-1.example.com", None, "node-1.example.com"),
        ("b@[::1]", "b@[::1]", None, "::1"),
        ("b@[2001:db8::1]:25673", "b@[2001:db8::1]", 25673, "2001:db8::1"),
    ],
)
def test_an_address_is_read(text, node, port, host):
    address = read_node_address(text)
    assert address == NodeAddress(node, port)
    assert host_of(node) == host
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "b", "b@", "@host", "b@host:", "b@host:x", " b@host", "b@a@host", "b c@d",
     "b@::1", "b@[::1", "b@ho\nst", "b@host:1:2", "b\x1b[2J@host", "b@" + 300 * "h"],
)  # fmt: skip
def test_an_invalid_address_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="expected name@host or name@host:port, such as"):
        read_node_address(text)


def test_a_name_may_be_shown_in_a_log():
    assert is_node_name("häse@höst")
    assert not is_node_name("b\u202e@host")
    assert not is_node_name("b\u2028@host")


@pytest.mark.parametrize("text", ["b@host:0", "b@host:65536"])
def test_an_invalid_port_is_refused(text):
    with pytest.raises(ValueError, match="is not a port: expected 1 to 65535"):
        read_node_address(text)
