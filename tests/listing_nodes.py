"""Nodes of a cluster that have objects to list, without sockets: each request is a call."""

from contextlib import contextmanager
from types import SimpleNamespace

import msgspec
from multidict import MultiDict

from leveret.broker.auth.identity import Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.declarations.requester import THE_NODE
from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api.call import Call, Passed
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.passed_answers import Handed
from leveret.mgmt.api.passed_requests import KeyList, PassedAnswer, PassedRequest, unpack_all
from tests.call_counts import counted_calls

ANYBODY = Identity("ann", ("administrator",), Unrestricted())


class Turns:
    """Counts the calls between two pauses, if it is asked to. longest: the most so far."""

    def __init__(self):
        self.longest = 0
        self._count = None

    @contextmanager
    def counted(self):
        """Count those of a block."""
        with counted_calls() as self._count:
            yield
        self._count = None

    async def pause(self):
        """A slice of work ends: all are as short as they can be."""
        if self._count is not None:
            self.longest = max(self.longest, self._count.taken())


class ListingNode:
    """One node. objects: what it has, by their names. rendered: the names of those it rendered.

    asked: the parts that others have asked it for. answers: whether it does; refused: how often it
    did not.
    """

    def __init__(self, cluster, name, joint):
        self.name = name
        self.objects = {}
        self.rendered = []
        self.asked = []
        self.answers = True
        self.refused = 0
        self._cluster = cluster
        self._joint = joint
        self._as_node = SimpleNamespace(
            name=name, facade=object(), give_way=cluster.turns.pause, users_passed_on={},
            cluster=SimpleNamespace(running=cluster.names, rpc=self),
        )  # fmt: skip

    def add(self, *names, **fields):
        """Have objects, with the same fields."""
        for name in names:
            self.objects[name] = {"name": name, "node": self.name, **fields}

    def _render(self, item):
        self.rendered.append(item["name"])
        return item

    def _answer(self, call):
        find = self.objects.get if self._cluster.knows_all else None
        quick = {"state": lambda item: item["state"]}
        listing = Listing(lambda item: item["name"], self._render, quick, find=find)
        return self._joint(listing).answer(call, self.objects.values())

    async def list(self, **query):
        """The answer to a client of this node, and the nodes that were left out of it."""
        request = Handed("GET", "/things", MultiDict(query), {}, {}, "127.0.0.1")
        call = Call(self._as_node, request, ANYBODY, None, "/things")
        shown = await self._answer(call)
        return msgspec.json.decode(msgspec.json.encode(shown)), call.left_out

    async def ask(self, node, topic, content, seconds_max, silence_seconds_max):
        """Answer in place of the other node, as `Rpc.ask` does."""
        other = self._cluster.nodes[node]
        if not other.answers:
            other.refused += 1
            raise NotAnswered(f"{node} is suspended")
        return await other.take(msgspec.msgpack.decode(content, type=PassedRequest))

    async def take(self, asked):
        """Answer what another node passes on."""
        self.asked.append(asked.part)
        query = MultiDict(unpack_all(asked.query))
        request = Handed("GET", "/things", query, {}, {}, "127.0.0.1")
        passed = Passed(b"", THE_NODE, {}, asked.part, asked.only_own)
        call = Call(self._as_node, request, ANYBODY, None, "/things", passed)
        found = await self._answer(call)
        encode = msgspec.msgpack.encode if isinstance(found, KeyList) else msgspec.json.encode
        return msgspec.msgpack.encode(PassedAnswer(200, encode(found)))


class ListingCluster:
    """Nodes that list what they have together. joint: makes the joint list of a `Listing`.

    knows_all: each node knows all objects. turns: of all nodes, which take turns with each other.
    """

    def __init__(self, *names, joint=JointListing, knows_all=False):
        self.names = names
        self.knows_all = knows_all
        self.turns = Turns()
        self.nodes = {name: ListingNode(self, name, joint) for name in names}

    def __iter__(self):
        return iter(self.nodes.values())
