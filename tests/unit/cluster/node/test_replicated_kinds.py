"""A further kind of replicated queues is told everything by its node, without a line there."""

from leveret.broker.config import Config, TcpSettings
from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.config.formation_settings import FormationSettings
from leveret.broker.node.broker import Broker
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.stream_kind import STREAM_QUEUE
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.node.cluster_node import ClusterNode
from leveret.cluster.node.replicated_kinds import KINDS
from leveret.cluster.placement.replicated_kind import ReplicatedKind
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.testing import EmbeddedBroker
from tests.patience import until
from tests.ports import free_ports


class Streams(ReplicatedKind):
    """Makes no queues. told: what the node has told it, each thing once."""

    def __init__(self, parts):
        self.parts = parts
        self.factory = QueueFactory(STREAM_QUEUE, lambda owner, specification: None)
        self.told = {}

    async def take_over(self, definitions, store, *, is_alone):
        self.told["take_over", is_alone] = None
        return definitions

    def restored(self):
        self.told["restored"] = None

    def has_declarations(self):
        self.told["has_declarations"] = None

    def members_changed(self):
        self.told["members_changed"] = None

    def view_changed(self):
        self.told["view_changed"] = None

    def maintenance_changed(self, is_under_maintenance):
        self.told["maintenance_changed", is_under_maintenance] = None

    def tick(self):
        self.told["tick"] = None

    async def hand_over(self):
        return False

    async def leave(self):
        self.told["leave"] = None

    def close(self):
        self.told["close"] = None


class InCluster:
    """A node that joins the others of a list when it starts for the first time."""

    def __init__(self, directory, port, listed=()):
        directory.mkdir()
        address = NodeAddress(f"{directory.name}@127.0.0.1", port)
        config = Config(
            node_name=address.name, data_dir=directory, tcp=TcpSettings(listeners=()),
            cluster=ClusterSettings(port=port, cookie="of the nodes of this test"),
            cluster_formation=FormationSettings(nodes=(*listed, address)),
        )  # fmt: skip
        self.address = address
        self.cluster = ClusterNode(config, directory)
        metadata = SqliteMetadata(directory / "metadata.sqlite")
        self.broker = Broker(config, metadata, data_dir=directory, clustering=self.cluster)

    @property
    def streams(self):
        return self.cluster.kinds.find(Streams)

    async def __aenter__(self):
        await self.broker.start()
        return self

    async def __aexit__(self, *_exception):
        await self.broker.stop()


async def test_a_further_kind_on_a_node_alone(monkeypatch):
    monkeypatch.setattr("leveret.cluster.node.replicated_kinds.KINDS", [*KINDS, Streams])
    async with EmbeddedBroker() as node:
        streams = node.broker.clustering.kinds.find(Streams)
        assert node.broker.services.queue_kinds.of(STREAM_QUEUE) is streams.factory
        assert streams.parts.store is None
    assert list(streams.told) == ["restored", "has_declarations", "close"]


async def test_a_further_kind_in_a_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.cluster.node.replicated_kinds.KINDS", [*KINDS, Streams])
    first, second = free_ports(2)
    async with InCluster(tmp_path / "a", first) as a:
        start = [("take_over", True), "restored", "has_declarations"]
        assert list(a.streams.told) == start
        async with InCluster(tmp_path / "b", second, [a.address]) as b:
            assert list(b.streams.told)[:2] == start[:2]
            for node in a, b:
                kinds = node.broker.services.queue_kinds
                assert kinds.of(STREAM_QUEUE) is node.streams.factory
                await until(lambda told=node.streams.told: {"view_changed", "tick"} <= told.keys())
            assert "members_changed" in a.streams.told
            assert not await a.cluster.leaders_handed_over()
            a.cluster.states.set_under_maintenance(True)
            await until(lambda: ("maintenance_changed", False) in b.streams.told)
            assert ("maintenance_changed", True) in a.streams.told
        assert list(b.streams.told)[-2:] == ["leave", "close"]
