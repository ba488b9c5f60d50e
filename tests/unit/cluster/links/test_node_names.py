"""The text forms of addresses."""

import pytest

from leveret.cluster.links.node_names import (
    DEFAULT_PORT,
    NodeAddress,
    host_of,
    is_node_name,
    parse_address,
)


@pytest.mark.parametrize(
    ("text", "node", "port", "host"),
    [
        ("b@host", "b@host", DEFAULT_PORT, "host"),
        ("b@host:25673", "b@host", 25673, "host"),
        (" b@127.0.0.1:1 ", "b@127.0.0.1", 1, "127.0.0.1"),
        ("b@node-1.example.com", "b@node-1.example.com", DEFAULT_PORT, "node-1.example.com"),
        ("b@[::1]", "b@[::1]", DEFAULT_PORT, "::1"),
        ("b@[2001:db8::1]:25673", "b@[2001:db8::1]", 25673, "2001:db8::1"),
    ],
)
def test_an_address_is_read(text, node, port, host):
    address = parse_address(text)
    assert address == NodeAddress(node, port)
    assert address.host == host_of(node) == host
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", "b", "b@", "@host", "b@host:", "b@host:0", "b@host:65536", "b@host:x", "b@a@host", "b c@d",
     "b@::1", "b@[::1", "b@ho\nst", "b@host:1:2", "b\x1b[2J@host", "b@" + 300 * "h"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="expected name@host or name@host:port, such as"):
        parse_address(text)


def test_a_name_may_be_shown_in_a_log():
    assert is_node_name("häse@höst")
    assert not is_node_name("b\u202e@host")
    assert not is_node_name("b\u2028@host")
