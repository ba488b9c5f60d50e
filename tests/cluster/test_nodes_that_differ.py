"""Nodes that differ from the others: in their release or clocks, or with the files of another one.

A node of another release, or with another clock, is this release with a module that Python loads
before anything else.
"""

import shutil
import signal

import pytest

from tests.cluster.clustered_nodes import ClusteredNode, declare, queues

OTHER_RELEASE = """
from leveret.cluster.links import configured_links, hello

def identity(*, features, **said):
    return hello.NodeIdentity(features=features - {lacks!r} | {has!r}, newest={newest}, **said)

configured_links.NodeIdentity = identity
"""
OTHER_CLOCK = """
import time
real = time.time
time.time = lambda: real() + {seconds}
"""


@pytest.fixture
def start(tmp_path):
    """Starts a node; `prelude` is what its Python runs first."""
    nodes = []

    def start(name, *options, prelude="", **how):
        environment = {}
        if prelude:
            place = tmp_path / f"prelude-{name}"
            place.mkdir()
            (place / "sitecustomize.py").write_text(prelude)
            environment["PYTHONPATH"] = str(place)
        nodes.append(ClusteredNode(tmp_path, name, *options, environment=environment, **how))
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


def flags(node):
    listed = node.ctl_json("list_feature_flags")
    return {flag["name"]: flag["state"] for flag in listed}


def test_a_node_of_the_next_release_works_with_one_of_this(start):
    a = start("a")
    prelude = OTHER_RELEASE.format(lacks={"user_limits"}, has={"later_feature"}, newest=3)
    b = start("b", prelude=prelude)
    assert set(flags(a).values()) == {"enabled"}
    b.join(a)
    declare(a, "of-a")
    declare(b, "of-b")
    assert queues(a) == queues(b) == {"of-a", "of-b"}
    found = flags(a)
    assert found.pop("user_limits") == "unavailable"
    assert set(found.values()) == {"enabled"}
    text = a.ctl("enable_feature_flag", "user_limits", succeeds=False)
    assert "not supported" in text
    a.ctl("enable_feature_flag", "virtual_host_metadata")
    b.stop()
    a.wait_until(lambda: flags(a)["user_limits"] == "enabled", "the only node has the feature")


def test_a_release_that_speaks_no_version_of_this_one_is_refused(start):
    a = start("a")
    prelude = OTHER_RELEASE.replace("newest={newest}", "oldest=3, newest=4")
    b = start("b", prelude=prelude.format(lacks=set(), has=set()))
    b.ctl("stop_app")
    text = b.ctl("join_cluster", a.address, succeeds=False)
    assert f"node {a.name} is older" in text
    a.wait_for_log("this node is older")
    declare(a, "unharmed")


@pytest.mark.parametrize("hours", [-7, 7])
def test_nodes_whose_clocks_differ_by_hours(start, hours):
    a = start("a")
    b = start("b", prelude=OTHER_CLOCK.format(seconds=hours * 3600))
    b.join(a)
    declare(b, "of-b")
    b.stop()
    declare(a, "missed")
    b.start()
    declare(b, "later")
    a.ctl("await_online_nodes", "2")
    assert queues(a) == queues(b) == {"of-b", "missed", "later"}


def test_the_data_directory_of_another_node_under_its_name(start):
    a = start("a")
    b = start("b")
    b.join(a)
    b.stop()
    shutil.copytree(
        b.data_dir, a.data_dir.parent / "copy", ignore=shutil.ignore_patterns("*.socket")
    )
    b.start()
    copy = start("copy", "--node", b.name, waits=False)
    a.wait_for_log(f"a second node with the name {b.name} is refused")
    copy.wait_for_log("every node needs a name of its own")
    declare(b, "unharmed")
    assert queues(a) == {"unharmed"}


def test_the_data_directory_of_another_node_under_another_name(start):
    a = start("a")
    b = start("b")
    b.join(a)
    b.stop()
    shutil.copytree(b.data_dir, a.data_dir.parent / "c", ignore=shutil.ignore_patterns("*.socket"))
    b.start()
    c = start("c", waits=False)
    assert c.wait_for_end() != 0
    assert f"but {a.name} disagrees" in c.log or f"but {b.name} disagrees" in c.log
    declare(b, "unharmed")
    assert queues(a) == {"unharmed"}


def test_a_node_that_has_lost_its_cluster_with_other_declarations_does_not_start(start, tmp_path):
    a = start("a")
    a.stop()
    shutil.copy(a.data_dir / "metadata.sqlite", tmp_path)
    a.start()
    b = start("b")
    b.join(a)
    declare(b, "kept")
    a.stop(signal.SIGKILL)
    (a.data_dir / "metadata.sqlite-wal").unlink()
    shutil.copy(tmp_path / "metadata.sqlite", a.data_dir)
    a.start(waits=False)
    assert a.wait_for_end() != 0
    assert "metadata.sqlite: the last changes are missing" in a.log
    assert f"is in no cluster by those that are left, but knows {b.name}" in a.log
    assert queues(b) == {"kept"}
