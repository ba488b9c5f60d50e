"""Garbage from another node: a service finds it damaged, and nothing else happens.

Links are closed for `PAYLOAD_ERRORS`, with a line in the log and no traceback (link.py).
"""

import random

import msgspec
import pytest

from leveret.broker.retained.retained_messages import RetainedMessages
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.direct_replies import Replies
from leveret.cluster.links.services import (
    CLIENT_IDS_SERVICE,
    GROUPS_SERVICE,
    IDENTIFIERS_SERVICE,
    LIMITED_COUNTS_SERVICE,
    METADATA_SERVICE,
    MULTICAST_SERVICE,
    NODE_STATES_SERVICE,
    PAYLOAD_ERRORS,
    REMOTE_QUEUES_SERVICE,
    REPLIES_SERVICE,
    RETAINED_SERVICE,
    RPC_SERVICE,
    SERVICE_NAMES,
    STREAMS_SERVICE,
)
from leveret.cluster.metadata.messages import SubmissionId, SubmitOperation, encode
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.retained.retained_copies import RetainedCopies
from leveret.cluster.rpc.direct_replies import RemoteReplies
from leveret.cluster.streams.stream_machines import StreamGroupMachines
from leveret.storage.log.log_files import FILE_BYTES_MAX
from tests.linked_nodes import LinkEnd, LinkServices
from tests.linked_rpc import linked
from tests.unit.cluster.deduplication.test_seen_elsewhere import Node as IdentifiersNode
from tests.unit.cluster.groups.grouped_nodes import NAMES, GroupedNode, KeepingKind
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes
from tests.unit.cluster.node_status.test_clients_elsewhere import Node as ClientNode
from tests.unit.cluster.node_status.test_limited_counts import OneNode as CountingNode
from tests.unit.cluster.node_status.test_node_states import OneNode as StatedNode
from tests.unit.cluster.streams.stream_nodes import StreamNode
from tests.unit.cluster.test_replicated_declarations import Cluster

A, B = "a@host", "b@host"
DEEP = b"\x91" * 20_000
"""Lists in lists, in MessagePack."""
DEEP_JSON = b'{"a":' * 20_000


def garbage():
    """Payloads of no kind, and of each kind with anything behind it."""
    chance = random.Random(1)
    yield from (b"", DEEP, b"P" + DEEP, b"\xff" * 100, b"\xdd\xff\xff\xff\xff", b"\xc1")
    for kind in range(256):
        for size in (0, 1, 8, 25, 60):
            yield bytes((kind,)) + chance.randbytes(size)
            yield bytes((kind,)) + bytes(size)


def mirrored():
    nodes = MirroredNodes(A, B)
    nodes.mirror(B)
    nodes.settle()
    return nodes


def replies():
    service = RemoteReplies(Replies(A), LinkServices(), UntakenBytes(lambda is_behind: None))
    end = LinkEnd(B)
    service.peer_up(end)
    return service, end


def node_states():
    service, end = StatedNode("a").service, LinkEnd(B)
    service.peer_up(end)
    return service, end


def limited_counts():
    service, end = CountingNode().counts, LinkEnd(B)
    service.peer_up(end)
    return service, end


def requests():
    _, b, _, to_a = linked()
    return b, to_a


def queues_of_other_nodes():
    nodes = mirrored()
    return nodes.by_name[B].queues, nodes.ends[B, A]


def mirrored_queues():
    nodes = mirrored()
    return nodes.by_name[B].replicas, nodes.ends[B, A]


def retained_messages():
    clock = VirtualClock()
    service = RetainedCopies(LinkServices(), RetainedMessages(clock, "a"), clock)
    end = LinkEnd(B)
    service.peer_up(end)
    return service, end


def client_ids():
    service, end = ClientNode("a").service, LinkEnd(B)
    service.peer_up(end)
    return service, end


def identifiers():
    service, end = IdentifiersNode("a").service, LinkEnd(B)
    service.peer_up(end)
    return service, end


@pytest.fixture
def cluster(tmp_path):
    """Two nodes, of which a coordinates."""
    made = Cluster(tmp_path)
    made.formed("a", "b")
    yield made
    for name in ("a", "b"):
        made.stop(name)


MADE = {
    REMOTE_QUEUES_SERVICE: queues_of_other_nodes,
    RPC_SERVICE: requests,
    MULTICAST_SERVICE: mirrored_queues,
    NODE_STATES_SERVICE: node_states,
    REPLIES_SERVICE: replies,
    LIMITED_COUNTS_SERVICE: limited_counts,
    RETAINED_SERVICE: retained_messages,
    CLIENT_IDS_SERVICE: client_ids,
    IDENTIFIERS_SERVICE: identifiers,
}


def refused(make):
    """How many payloads a service finds damaged. None of these changes anything in it."""
    service, peer = make()
    count = 0
    for payload in garbage():
        try:
            service.received(peer, payload)
        except PAYLOAD_ERRORS:
            count += 1
    return count


@pytest.mark.parametrize("number", MADE, ids=SERVICE_NAMES.get)
async def test_a_service_finds_it_damaged(number):
    assert refused(MADE[number]) > 500


def test_declarations_are_found_damaged(cluster):
    ((to_b, _),) = cluster.links
    assert refused(lambda: (cluster.nodes["b"].log, to_b.back)) > 500


@pytest.mark.parametrize(
    ("node_class", "kind"), [(GroupedNode, KeepingKind), (StreamNode, StreamGroupMachines)]
)
async def test_groups_find_it_damaged(tmp_path, node_class, kind):
    node, end = node_class(NAMES[0], tmp_path, {}, FILE_BYTES_MAX, kind()), LinkEnd(B)
    await node.start()
    node.groups.peer_up(end)
    assert refused(lambda: (node.groups, end)) > 500
    await node.kill()


def test_all_services_are_tried():
    assert {*MADE, METADATA_SERVICE, GROUPS_SERVICE, STREAMS_SERVICE} == set(SERVICE_NAMES)


@pytest.mark.parametrize(
    "payload",
    [b"garbage", DEEP, *(msgspec.msgpack.encode([one]) for one in (DEEP, DEEP_JSON))],
    ids=["no list", "deep", "a deep one", "a deep one in JSON"],
)
def test_a_submission_that_is_damaged_is_refused(cluster, payload):
    coordinator, failed = cluster.nodes["a"].log, []
    coordinator.failed = failed.append
    index = coordinator._stability.applied
    submitted = SubmitOperation(coordinator.view.id, SubmissionId("b", 1, 1_000), payload)
    ((to_b, to_a),) = cluster.links
    wire = to_a if to_a.name == "a" else to_b
    wire.send(METADATA_SERVICE, encode(submitted))
    cluster.run()
    assert coordinator._stability.applied == index + 1
    assert failed == []
