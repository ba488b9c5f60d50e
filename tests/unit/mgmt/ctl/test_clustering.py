"""Names of nodes on the command line."""

import pytest

from leveret.mgmt.ctl.clustering import with_host


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("two", "two@one.example.org"),
        ("two:25673", "two@one.example.org:25673"),
        ("two@host", "two@host"),
        ("two@[::1]:25673", "two@[::1]:25673"),
        ("", ""),
    ],
)
def test_a_node_without_a_host_is_on_the_host_of_the_own_one(said, meant):
    assert with_host(said, "one@one.example.org") == meant
