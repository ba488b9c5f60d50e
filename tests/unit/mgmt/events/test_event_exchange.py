"""How the fields of events become headers."""

import pytest

from leveret.mgmt.events.event_exchange import header_of


@pytest.mark.parametrize(
    ("name", "fact", "header"),
    [
        ("durable", True, ("t", True)),
        ("number", 5, ("l", 5)),
        ("share", 0.5, ("d", 0.5)),
        ("name", "q", ("S", "q")),
        ("tags", ["a", "b"], ("A", [("S", "a"), ("S", "b")])),
        ("definition", {"max-length": 3}, ("F", {"max-length": ("l", 3)})),
        ("definition", {}, ("A", [])),
        ("arguments", {"k": ("l", 1)}, ("A", [("S", '{<<"k">>,long,1}')])),
        ("arguments", {}, ("A", [])),
        ("host", "10.0.0.1", ("S", "{10,0,0,1}")),
        ("peer_host", "::1", ("S", "{0,0,0,0,0,0,0,1}")),
        ("peer_host", "fe80::1%eth0", ("S", "{65152,0,0,0,0,0,0,1}")),
        ("host", "this node", ("S", "this node")),
        ("limit", None, ("S", "undefined")),
    ],
)
def test_a_field_becomes_a_header(name, fact, header):
    assert header_of(name, fact) == header
