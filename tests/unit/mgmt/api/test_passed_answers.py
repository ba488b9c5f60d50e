"""What a node carries out for another one, and for whom."""

from types import SimpleNamespace

import msgspec
import pytest

from leveret.broker.auth.identity import Identity
from leveret.broker.config import Config
from leveret.broker.declarations.requester import THE_NODE
from leveret.mgmt.api.passed_answers import answer_other_nodes
from leveret.mgmt.api.passed_requests import (
    ASKED_PERMISSIONS,
    EVERYTHING,
    OWN_PERMISSIONS,
    TOPIC,
    PassedAnswer,
    PassedRequest,
    pack_all,
    pack_requester,
)
from leveret.mgmt.node_facade.declared import DeclaredFacade
from tests.listing_nodes import Turns

REQUEST = PassedRequest(
    method="GET", route="/cluster-name", path=b"/api/cluster-name", variables=(), query=(),
    headers=(), body=b"", user=b"ann", tags=(b"management",), vhosts=(), authority=OWN_PERMISSIONS,
    requester=pack_requester(THE_NODE), part=None, only_own=True,
)  # fmt: skip


class Access:
    """The users of the cluster, who may do nothing."""

    def own_identity(self, name, tags):
        return Identity(name, tags)

    def may_use_vhost(self, identity, vhost, peer_host):
        return False

    def is_own(self, identity):
        return False


class Facade(DeclaredFacade):
    """A vhost without queues, and no alarms."""

    access = Access()
    own_alarms = ()


@pytest.fixture
def node():
    """A node whose only part is what answers other nodes. topics: what it answers by."""
    topics = {}
    return SimpleNamespace(
        name="b@host", config=Config(), facade=Facade({"/": SimpleNamespace(queues={})}),
        cluster_name="hares", is_holding_clients=False, topics=topics, give_way=Turns().pause,
        cluster=SimpleNamespace(rpc=SimpleNamespace(answer=topics.__setitem__)),
    )  # fmt: skip


async def answer(node, **changes):
    """The status and the content of an answer to a request."""
    answer_other_nodes(node)
    asked = msgspec.structs.replace(REQUEST, **changes)
    raw = await node.topics[TOPIC]("a@host", msgspec.msgpack.encode(asked))
    answered = msgspec.msgpack.decode(raw, type=PassedAnswer)
    return answered.status, msgspec.json.decode(answered.content)


async def test_a_route_is_carried_out(node):
    assert await answer(node) == (200, {"name": "hares"})


async def test_a_route_of_a_later_release_is_not_known(node):
    status, content = await answer(node, route="/carrots")
    assert (status, content["reason"]) == (501, "node b@host does not know /carrots")


async def test_the_user_has_the_rights_of_its_tags(node):
    status, content = await answer(node, route="/nodes/{node}/memory")
    assert (status, content["reason"]) == (401, "Not monitor user")


@pytest.mark.parametrize("authority", [OWN_PERMISSIONS, ASKED_PERMISSIONS])
async def test_routes_of_the_control_socket_are_for_its_users_only(node, authority):
    assert (await answer(node, route="/node/status", authority=authority))[0] == 404


async def test_a_node_is_not_stopped_through_another_one(node):
    changes = {"method": "POST", "route": "/node/stop-app", "authority": EVERYTHING}
    status, content = await answer(node, **changes)
    assert status == 409
    assert content["reason"] == "this has to be done on the machine of node b@host"


async def test_vhosts_that_the_asking_node_has_found_open_are_open(node):
    changes = {
        "route": "/queues/{vhost}/{queue}", "variables": pack_all([("vhost", "/"), ("queue", "q")]),
        "authority": ASKED_PERMISSIONS,
    }  # fmt: skip
    assert (await answer(node, **changes))[0] == 401
    assert (await answer(node, **changes, vhosts=(b"/",)))[0] == 404


async def test_a_node_that_does_not_know_its_place_says_so_at_once(node):
    node.is_holding_clients = True
    status, content = await answer(node)
    assert (status, content["error"]) == (503, "service_unavailable")
    assert content["reason"] == (
        "node b@host was suspended, and does not know yet whether the others have gone on without "
        "it"
    )
    assert (await answer(node, route="/health/checks/local-alarms"))[0] == 200
