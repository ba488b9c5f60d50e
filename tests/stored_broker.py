"""An embedded broker with a data directory, whose parts a test may replace."""

from dataclasses import replace

from leveret.broker.config import Config
from leveret.broker.node.broker import Broker
from leveret.cluster.node.lone_node import LoneNode
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.testing import EmbeddedBroker, ThreadedBroker
from tests.patience import OPERATION_MS

PATIENT = replace(Config(), channel_operation_timeout_ms=OPERATION_MS)


class StoredBroker(EmbeddedBroker):
    """A broker that keeps its files in a directory.

    metadata: created at each start. make_metadata: makes it from a path. disk: the store's.
    """

    def __init__(
        self, directory, *, make_metadata=SqliteMetadata, disk=None, virtual_clock=False,
        config=None, streams=False,
    ):  # fmt: skip
        if not virtual_clock:
            config = config or PATIENT
        super().__init__(config, virtual_clock=virtual_clock, streams=streams)
        self._directory = directory
        self._make_metadata = make_metadata
        self._disk = disk
        self.metadata = None

    def _make_broker(self):
        self.metadata = self._make_metadata(self._directory / "metadata.sqlite")
        return Broker(
            self.config, self.metadata, clock=self._clock, data_dir=self._directory,
            disk=self._disk, clustering=LoneNode(self.config, self._directory),
        )  # fmt: skip


def started(directory, **parts):
    """A broker in a thread, which runs until its `stop`."""
    broker = ThreadedBroker(StoredBroker(directory, **parts))
    broker.start()
    return broker
