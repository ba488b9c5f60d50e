"""A node of a losing side gives way, also if it is killed or stopped before it has taken all."""

import pytest
from msgspec.structs import replace

from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.cluster.membership.membership_changes import ClusterMembership
from leveret.cluster.metadata.history import History, LastView
from leveret.cluster.metadata.messages import View, ViewId, ViewMember, ViewStart
from leveret.cluster.node.partition_handling import PartitionHandling
from leveret.cluster.startup.membership_files import MembershipFiles
from leveret.cluster.startup.start_as import StartAs
from leveret.storage.metadata.metadata import SqliteMetadata

VIEW = View(ViewId(3, "b", 1), (ViewMember("b", 1), ViewMember("c", 1)))
LAST = LastView(VIEW, (ViewStart(VIEW.id, 1),), 5, frozenset("bc"))


class Store:
    """The metadata store of a node that has run in a view."""

    def __init__(self, directory):
        self.path = directory / "metadata.sqlite"
        self.metadata = SqliteMetadata(self.path)
        self.history = History(self.metadata)
        self.history.begin(LAST, is_replaced=False)

    def next_run(self):
        """The history of the next run, and what it finds."""
        self.metadata.close()
        self.metadata = SqliteMetadata(self.path)
        self.history = History(self.metadata)
        return self.history, self.history.read(self.metadata.load().parameters)


def test_a_node_follows_another_member_if_the_winners_have_left_the_cluster(store, tmp_path):
    files = MembershipFiles(tmp_path, store.path, "c")
    store.history.give_way(("a",))
    for present, takes_from in (("abc", ("a",)), ("bcd", ("d",))):
        store.metadata.close()
        files.write(ClusterMembership("1", dict.fromkeys(present, True)))
        files.follow("d")
        assert store.next_run()[1].takes_from == takes_from


class SlowSync:
    """A disk that syncs when the test says so."""

    def __init__(self):
        self.callbacks = []

    def when_synced(self, callback):
        self.callbacks.append(callback)

    def end(self, error=None):
        for callback in self.callbacks:
            callback(error)


class Keeping:
    gives_way_to = ()


class Losing:
    """A node that has lost. restarts: how it was to start again, each time."""

    def __init__(self, store):
        self.sync, self.keeping, self.restarts = SlowSync(), Keeping(), []
        self.handling = PartitionHandling(
            ClusterSettings(), None, None, "c", None, self.keeping, store.history, self.sync,
            self.restarts.append,
        )  # fmt: skip


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.metadata.close()


def test_every_start_takes_from_the_winners_until_one_has_taken(store):
    store.history.give_way(("a",))
    for _ in range(2):
        history, saved = store.next_run()
        assert saved.takes_from == ("a",)
        history.write_companions(frozenset("abc"))
    history.begin(replace(LAST, base=9), is_replaced=True)
    assert store.next_run()[1].takes_from == ()


def test_a_view_of_the_run_that_gives_way_is_not_the_one_that_it_takes_from(store):
    store.history.give_way(("a",))
    store.history.begin(replace(LAST, base=6), is_replaced=False)
    assert store.next_run()[1].takes_from == ("a",)


def test_a_node_restarts_when_its_disk_says_that_it_gives_way(store):
    losing = Losing(store)
    losing.handling.give_way(("a",))
    assert losing.keeping.gives_way_to == ("a",)
    assert losing.restarts == []
    losing.sync.end()
    assert losing.restarts == [StartAs(is_patient=True, takes_from=("a",))]
    assert store.next_run()[1].takes_from == ("a",)


def test_a_node_whose_disk_fails_gives_way_and_says_so(store, caplog):
    losing = Losing(store)
    losing.handling.give_way(("a",))
    losing.sync.end(OSError("no space"))
    assert losing.restarts == [StartAs(is_patient=True, takes_from=("a",))]
    assert "no space" in caplog.text


async def test_a_node_that_was_stopped_meanwhile_does_not_start_again(store):
    losing = Losing(store)
    losing.handling.give_way(("a",))
    await losing.handling.stop()
    losing.sync.end()
    assert losing.restarts == []
