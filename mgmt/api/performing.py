"""Passes a request to the node that has to answer it.

Most requests concern objects that every node has, or the cluster as a whole, and the route's
function answers them on the node that got the request. Other requests concern one node
(`ApiRoute.answered_by`), and are passed on to it (other_nodes.py).
"""

import asyncio
from typing import Any

from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, not_found
from leveret.mgmt.api.listing import arranged, pick_columns
from leveret.mgmt.api.other_nodes import ask, other_nodes, pass_on, result_of
from leveret.mgmt.api.passed_requests import PassedAnswer
from leveret.mgmt.api.routes import Answerer, ApiRoute


async def perform(route: ApiRoute, call: Call) -> Any:
    """The answer to a request. Raises ApiError."""
    node = None if call.passed is not None else _answering_node(route, call)
    if node is not None and node != call.node.name:
        return await pass_on(call, node)
    try:
        return await _arranged(call, await route.handler(call))
    except ApiError as error:
        if error.status != 404 or route.answered_by is not Answerer.WHO_HAS_IT:
            raise
        return await _ask_who_has_it(call, error)


def _answering_node(route: ApiRoute, call: Call) -> str | None:
    """The node that has to answer; None for this one. Raises 404.

    The route's function refuses a node in the path that is not in the cluster.
    """
    wanted = call.wanted_node
    if wanted:
        member = _member(call, wanted)
        if member is None:
            raise not_found(f"node {wanted} is not a member of this cluster")
        return member
    if route.answered_by is Answerer.NODE_IN_PATH and "node" in call.request.match_info:
        return _member(call, call.path("node"))
    if route.answered_by is Answerer.HOME_OF_QUEUE:
        return call.facade.home_of(call.path("vhost"), call.path("queue")) or None
    return None


def _member(call: Call, name: str) -> str | None:
    """The member of the cluster with this name, or with this part before the @."""
    cluster = call.node.cluster if call.node.facade is not None else None
    members = [call.node.name] if cluster is None else list(cluster.members)
    for member in members:
        if name in (member, member.partition("@")[0]):
            return member
    return None


async def _ask_who_has_it(call: Call, missing: ApiError) -> Any:
    """The answer of the node that has the object. Raises its ApiError, or `missing`."""
    answers = await asyncio.gather(*(_try(call, name) for name in other_nodes(call)))
    for answer in answers:
        if answer is not None and answer.status != 404:
            return result_of(answer)
    raise missing


async def _try(call: Call, node: str) -> PassedAnswer | None:
    try:
        return await ask(call, node)
    except NotAnswered:
        call.left_out.add(node)
        return None


async def _arranged(call: Call, answer: Any) -> Any:
    """The content with only the requested columns. Answers of `Listing` already have only these."""
    columns = call.query("columns")
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return await arranged(call, answer)
    if columns and isinstance(answer, dict) and "items" not in answer:
        return pick_columns(answer, columns)
    return answer
