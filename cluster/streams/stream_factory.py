"""The factory of streams in a cluster."""

from typing import Protocol

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.stream_kind import STREAM_QUEUE, STREAM_QUEUE_OF_4
from leveret.broker.runtime.pending import Answer
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.group_factory import GroupFactory, GroupsOfKind, Nodes
from leveret.cluster.replicated_queues.membership_record import MembersRecord
from leveret.cluster.streams.client.stream_group import StreamGroup
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient


class Streams(GroupsOfKind[StreamQueueClient], Protocol):
    """The streams of this node."""

    def made(self, specification: QueueSpecification, record: MembersRecord) -> StreamGroup:
        """The service for the client of a stream, which is about to be created."""


class StreamFactory(GroupFactory[StreamQueueClient]):
    """Makes streams."""

    def __init__(self, node: OwnNode, nodes: Nodes, streams: Streams) -> None:
        kind = STREAM_QUEUE if node.shows_zero else STREAM_QUEUE_OF_4
        super().__init__(kind, StreamQueueClient, node.name, nodes, streams)
        self._own_node = node
        self._streams = streams

    def new_client(
        self, owner: QueueOwner, specification: QueueSpecification, record: MembersRecord
    ) -> QueueClient:
        """The client of a stream with these members."""
        service = self._streams.made(specification, record)
        return StreamQueueClient(owner, specification, self._own_node, service)

    def begin(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Answer when the group has a leader. Refused with 541 if too few members run."""
        self._of(queue).begin(answer)
