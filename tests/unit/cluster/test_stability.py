"""When what a node has applied is on all nodes of its view, and when that view is another one."""

import pytest

from leveret.broker.declarations.values import PutQueue
from leveret.cluster.metadata.stability import Stability
from tests.unit.cluster.test_replicated_declarations import Cluster


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    for name in tuple(cluster.nodes):
        cluster.stop(name)


def test_what_a_restart_has_found_is_not_stable_before_the_first_view_is():
    stability, stable = Stability(), []
    stability.when_stable(lambda: stable.append("restored"))
    stability.advanced(-1)
    assert stable == []
    stability.advanced(0)
    assert stable == ["restored"]


def test_changes_are_stable_when_all_nodes_have_them_on_disk(cluster):
    a, b, c = cluster.formed("a", "b", "c")
    stable = []
    a.log.submit(PutQueue("/", "q", True))
    cluster.pass_frames()
    b.log.when_stable(lambda: stable.append("b"))
    for node in (a, b):
        node.sync.sync()
        cluster.pass_frames()
    assert stable == []
    c.sync.sync()
    cluster.pass_frames()
    assert stable == ["b"]
    b.log.when_stable(lambda: stable.append("again"))
    assert stable == ["b", "again"]


def test_changes_missing_on_the_disk_of_a_dead_node_are_stable_in_the_next_view(cluster):
    a, b, _ = cluster.formed("a", "b", "c")
    stable = []
    a.log.submit(PutQueue("/", "q", True))
    a.log.when_stable(lambda: stable.append("a"))
    cluster.pass_frames()
    for node in (a, b):
        node.sync.sync()
    cluster.pass_frames()
    assert stable == []
    cluster.stop("c")
    cluster.run()
    assert stable == ["a"]
    assert a.log.view.names == ("a", "b")


def test_each_view_is_told_of_when_what_it_brings_is_applied(cluster):
    a = cluster.start("a")
    views = []
    a.listener.when_view_changed = lambda: views.append((a.log.view.names, a.log.is_coordinator))
    a.log.form()
    cluster.run()
    cluster.start("b")
    cluster.run()
    cluster.stop("b")
    cluster.run()
    assert views == [(("a",), True), (("a", "b"), True), (("a",), True)]


def test_nothing_becomes_stable_on_a_node_that_has_stopped(cluster):
    a, _ = cluster.formed("a", "b")
    stable = []
    a.log.submit(PutQueue("/", "q", True))
    a.log.when_stable(lambda: stable.append("a"))
    cluster.stop("a")
    cluster.run()
    assert stable == []
