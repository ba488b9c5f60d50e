"""Answers requests that other nodes of the cluster pass on (passed_requests.py).

The route's own function answers, as for a client. If the call was passed on, it answers with this
node's part.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from multidict import MultiDict, MultiMapping

from leveret.broker.auth.identity import Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.declarations.requester import HTTP
from leveret.mgmt.api.asked_permissions import AskedPermissions, answer_for_permissions
from leveret.mgmt.api.call import Call, Passed
from leveret.mgmt.api.encoding import encode
from leveret.mgmt.api.errors import ApiError, conflict
from leveret.mgmt.api.incoming import limits_of
from leveret.mgmt.api.passed_requests import (
    ASKED_PERMISSIONS,
    EVERYTHING,
    OWN_PERMISSIONS,
    TOPIC,
    FilePiece,
    KeyList,
    PassedAnswer,
    PassedRequest,
    unpack,
    unpack_all,
    unpack_requester,
)
from leveret.mgmt.api.performing import perform
from leveret.mgmt.api.resources import all_routes
from leveret.mgmt.api.routes import ApiRoute, Created, NoContent, StatusAnswer
from leveret.mgmt.running_node import RunningNode

HOLDING = "was suspended, and does not know yet whether the others have gone on without it"


class Handed(NamedTuple):
    """A request that another node has passed on, as a `call.Request`."""

    method: str
    path: str
    query: MultiMapping[str]
    headers: Mapping[str, str]
    match_info: Mapping[str, str]
    remote: str | None


def answer_other_nodes(node: RunningNode) -> None:
    """Answer requests that other nodes pass on. Called after each start of the broker."""
    if node.cluster is None:
        return
    routes = {(one.method, one.path): one for one in all_routes()}

    async def answer(asker: str, content: bytes) -> bytes:
        asked = msgspec.msgpack.decode(content, type=PassedRequest)
        answered = await _answer(node, routes, asked, asker)
        return msgspec.msgpack.encode(answered)

    node.cluster.rpc.answer(TOPIC, answer)
    answer_for_permissions(node, node.cluster.rpc)


async def _answer(
    node: RunningNode, routes: dict[tuple[str, str], ApiRoute], asked: PassedRequest, asker: str
) -> PassedAnswer:
    try:
        route = routes.get((asked.method, asked.route))
        if route is None or node.facade is None:
            raise ApiError(501, "not_implemented", f"node {node.name} does not know {asked.route}")
        if route.control_only and asked.authority != EVERYTHING:
            raise ApiError(404, "Object Not Found", "Not Found")
        if route.works_stopped and asked.method != "GET":
            # It may close the link, and with it the call that was passed on.
            raise conflict(f"this has to be done on the machine of node {node.name}")
        if node.is_holding_clients and not (route.works_stopped or route.answers_at_once):
            # The asking node leaves this one out, so that its client does not have to wait.
            raise ApiError(503, "service_unavailable", f"node {node.name} {HOLDING}")
        call = _call(node, asked, asker)
        return await _encoded(node, await perform(route, call))
    except ApiError as error:
        content = {"error": error.error, "reason": error.reason, **error.details}
        return PassedAnswer(error.status, msgspec.json.encode(content))


def _call(node: RunningNode, asked: PassedRequest, asker: str) -> Call:
    requester = unpack_requester(asked.requester)
    request = Handed(
        asked.method,
        unpack(asked.path),
        MultiDict(unpack_all(asked.query)),
        dict(unpack_all(asked.headers)),
        dict(unpack_all(asked.variables)),
        requester.address if requester.way == HTTP else None,
    )
    passed = Passed(asked.body, requester, _may_open(node, asked), asked.part, asked.only_own)
    limits = limits_of(node.config.management)
    return Call(node, request, _identity(node, asked, asker), limits, asked.route, passed)


def _may_open(node: RunningNode, asked: PassedRequest) -> dict[str, bool]:
    """The vhosts that the user may open, unless this node decides that itself."""
    if asked.authority != ASKED_PERMISSIONS or node.facade is None:
        return {}
    may_open = {unpack(name) for name in asked.vhosts}
    return {name: name in may_open for name in node.facade.vhost_names()}


def _identity(node: RunningNode, asked: PassedRequest, asker: str) -> Identity:
    name, tags = unpack(asked.user), tuple(map(unpack, asked.tags))
    if asked.authority == EVERYTHING:
        return Identity(name, tags, authorization=Unrestricted())
    if asked.authority == OWN_PERMISSIONS and node.facade is not None:
        return node.facade.access.own_identity(name, tags)
    assert node.cluster is not None, "another node has asked"
    permissions = AskedPermissions(node.cluster.rpc, asker, asked.number)
    return Identity(name, tags, authorization=permissions)


async def _encoded(node: RunningNode, answer: Any) -> PassedAnswer:
    if isinstance(answer, NoContent):
        return PassedAnswer(204)
    if isinstance(answer, Created):
        return PassedAnswer(201 if answer.is_new else 204, b"", answer.location)
    if isinstance(answer, StatusAnswer):
        return PassedAnswer(answer.status, msgspec.json.encode(answer.content))
    if isinstance(answer, KeyList | FilePiece):
        return PassedAnswer(200, msgspec.msgpack.encode(answer))
    if isinstance(answer, web.StreamResponse):
        raise ApiError(501, "not_implemented", "only the node itself answers this request")
    return PassedAnswer(200, b"".join(await encode(answer, node.give_way)))
