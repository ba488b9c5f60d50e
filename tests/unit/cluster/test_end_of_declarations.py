"""The end of a node's replicated declarations, and what its next run knows of them."""

import pytest

from leveret.broker.declarations.values import PutQueue, PutVhost
from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.runtime.pending import Answer
from leveret.cluster.metadata.history import History
from leveret.storage.metadata.metadata import MetadataError
from tests.unit.cluster.test_replicated_declarations import Cluster


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    for node in made.nodes.values():
        node.stop()


def test_what_a_stopped_node_submitted_is_refused(cluster):
    _, b, _ = cluster.formed("a", "b", "c")
    answer = b.log.submit(PutQueue("/", "q", True))
    b.log.end("the node stops")
    with pytest.raises(MetadataError, match="the node stops"):
        answer.result()


def test_a_node_whose_replication_has_ended_takes_nothing_more(cluster):
    """A client may be left, or a queue expire, before the node has stopped."""
    _, b, _ = cluster.formed("a", "b", "c")
    before = cluster.contents("b")
    b.log.end("the node stops")
    given_answer = Answer()
    for answer in (
        b.log.submit(PutQueue("/", "q", True)),
        b.log.submit(PutQueue("/", "r", True), answer=given_answer),
        b.log.synced(),
    ):
        with pytest.raises(NotTaken, match="the node stops"):
            answer.result()
    assert given_answer.is_given
    assert cluster.contents("b") == before


def test_a_node_without_a_cluster_declares_until_its_end(cluster):
    a = cluster.start("a")
    a.log._replication = None
    a.log.end("the node stops")
    a.log.submit(PutVhost("/")).result()
    assert len(cluster.contents("a")) == 1


def test_what_a_node_has_agreed_to_is_known_after_its_restart(cluster):
    _, b, _ = cluster.formed("a", "b", "c")
    view = b.log.view.id
    assert view.coordinator == "a"
    cluster.stop("b")
    cluster.run()
    b = cluster.start("b", 2)
    assert History(b.metadata).read(b.metadata.load().parameters).promised == view
    assert b.log._replication.views._agreement.promised == view
