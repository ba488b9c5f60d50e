"""Node names of the hosts that a backend lists."""

import pytest

from leveret.cluster.discovery.node_names import NodeNames


@pytest.mark.parametrize(
    ("own", "host", "expected"),
    [
        ("rabbit@one", "two", "rabbit@two"),
        ("rabbit@one", "two.example.org", "rabbit@two"),
        ("rabbit@one.example.org", "two.example.org.", "rabbit@two.example.org"),
        ("rabbit@one", "10.0.0.7", "rabbit@10.0.0.7"),
        ("rabbit@10.0.0.6", "two.example.org", "rabbit@two.example.org"),
        ("rabbit@one", "fd00::7", "rabbit@[fd00::7]"),
        ("a@one", "other@two", "a@two"),
    ],
)
def test_the_host_is_put_into_the_nodes_own_name(own, host, expected):
    assert NodeNames(own).at(host) == expected


def test_a_whole_name_is_kept():
    assert NodeNames("a@one").of_host("b@two.example.org") == "b@two.example.org"
