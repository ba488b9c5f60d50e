"""Asks the other nodes of the cluster to answer a request for their own objects.

All running nodes are asked in parallel. A node that gives no sign of life for `SILENCE_SECONDS_MAX`
is left out, and named in the header `LEFT_OUT` of the answer. A node without a cluster asks no
other node.
"""

import asyncio
from typing import Any

import msgspec

from leveret.broker.auth.unrestricted import Unrestricted
from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api.asked_permissions import numbered
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.passed_requests import (
    ANSWER_SECONDS_MAX,
    ASKED_PERMISSIONS,
    EVERYTHING,
    OWN_PERMISSIONS,
    SILENCE_SECONDS_MAX,
    TOPIC,
    Part,
    PassedAnswer,
    PassedRequest,
    pack,
    pack_all,
    pack_requester,
)
from leveret.mgmt.api.routes import Created, NoContent, StatusAnswer

ACTING_SECONDS_MAX, ACTING_SILENCE_SECONDS_MAX = 3600.0, 10.0
"""The limits for an act, such as moving very many messages, which is not abandoned early."""
PASSED_HEADERS = ("X-Reason",)


def other_nodes(call: Call) -> tuple[str, ...]:
    """The other running nodes, except those that did not answer before.

    Empty if another node requests this node's own objects.
    """
    cluster = call.node.cluster
    if cluster is None or call.wants_only_own or call.node.facade is None:
        return ()
    left_out = {call.node.name, *call.left_out}
    return tuple(name for name in cluster.running if name not in left_out)


async def ask_others(
    call: Call,
    part: Part | None = None,
    columns: str | None = None,
    *,
    takes_long: bool = False,
) -> dict[str, bytes]:
    """The answers of all other nodes, by name, without nodes that do not answer or have an error.

    part, columns, takes_long: see `ask`.
    """
    names = other_nodes(call)
    if not names:
        return {}
    answers = await asyncio.gather(
        *(ask_for_part(call, name, part, columns, takes_long=takes_long) for name in names)
    )
    return {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}


async def ask_for_part(
    call: Call,
    node: str,
    part: Part | None = None,
    columns: str | None = None,
    body: bytes | None = None,
    *,
    takes_long: bool = False,
) -> bytes | None:
    """A node's answer for its own objects; None without an answer, or for an error."""
    try:
        answer = await ask(call, node, part=part, columns=columns, body=body, takes_long=takes_long)
    except NotAnswered:
        call.left_out.add(node)
        return None
    if answer.status >= 500:
        call.left_out.add(node)
    return answer.content if answer.status < 400 else None


async def ask(
    call: Call,
    node: str,
    *,
    part: Part | None = None,
    columns: str | None = None,
    body: bytes | None = None,
    only_own: bool = True,
    takes_long: bool = False,
) -> PassedAnswer:
    """Have a node carry out the request. Raises NotAnswered.

    columns: replaces the columns that the client requested; empty: all. body: replaces the
    client's. only_own: only the node's own objects are requested. takes_long: it reads or changes
    very many of them.
    """
    cluster = call.node.cluster
    if cluster is None:
        raise NotAnswered(f"node {node} is not in a cluster with this one")
    is_get = call.request.method in ("GET", "HEAD")
    if body is None:
        body = b"" if is_get else await call.raw_body()
    limits = (
        (ACTING_SECONDS_MAX, ACTING_SILENCE_SECONDS_MAX)
        if takes_long
        else (ANSWER_SECONDS_MAX, SILENCE_SECONDS_MAX)
    )
    with numbered(call.node, call.identity) as number:
        asked = _passed(call, part, columns, body, only_own=only_own, number=number)
        content = await cluster.rpc.ask(node, TOPIC, msgspec.msgpack.encode(asked), *limits)
    return msgspec.msgpack.decode(content, type=PassedAnswer)


def _passed(
    call: Call,
    part: Part | None,
    columns: str | None,
    body: bytes,
    *,
    only_own: bool,
    number: int,
) -> PassedRequest:
    request, identity = call.request, call.identity
    query = [
        (name, value)
        for name, value in request.query.items()
        if columns is None or name not in ("columns", "sort", "sort_reverse")
    ]
    if columns:
        query.append(("columns", columns))
    authority = _authority(call)
    return PassedRequest(
        method="GET" if request.method == "HEAD" else request.method,
        route=call.route,
        path=pack(request.path),
        variables=pack_all(request.match_info.items()),
        query=pack_all(query),
        headers=pack_all(
            (name, request.headers[name]) for name in PASSED_HEADERS if name in request.headers
        ),
        body=body,
        user=pack(identity.name),
        tags=tuple(map(pack, identity.tags)),
        vhosts=_open_vhosts(call) if authority == ASKED_PERMISSIONS else (),
        authority=authority,
        requester=pack_requester(call.requester),
        part=part,
        only_own=only_own,
        number=number,
    )


def _open_vhosts(call: Call) -> tuple[bytes, ...]:
    return tuple(pack(name) for name in call.facade.vhost_names() if call.may_open(name))


def _authority(call: Call) -> str:
    if isinstance(call.identity.authorization, Unrestricted):
        return EVERYTHING
    is_own = call.facade.access.is_own(call.identity)
    return OWN_PERMISSIONS if is_own else ASKED_PERMISSIONS


async def pass_on(call: Call, node: str) -> Any:
    """Have another node answer the whole request. Raises ApiError."""
    is_act = call.request.method not in ("GET", "HEAD")
    try:
        answer = await ask(call, node, only_own=False, takes_long=is_act)
    except NotAnswered as error:
        raise ApiError(503, "service_unavailable", str(error)) from None
    return result_of(answer)


def result_of(answer: PassedAnswer) -> Any:
    """An answer of another node as one of this node. Raises ApiError."""
    if answer.status >= 400:
        content: dict[str, Any] = msgspec.json.decode(answer.content)
        raise ApiError(answer.status, content.pop("error"), content.pop("reason"), details=content)
    if answer.status == 204 and not answer.location:
        return NoContent()
    if answer.status in (201, 204):
        return Created(answer.status == 201, answer.location)
    if answer.status != 200:
        return StatusAnswer(answer.status, msgspec.Raw(answer.content))
    return msgspec.Raw(answer.content)
