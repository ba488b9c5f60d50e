"""The permissions of users that logged in at another node, which is asked for each check.

A user of an LDAP or HTTP server or of OAuth 2.0 has a password or a token that only the node of the
login has seen, and another node may be configured without that backend. So a request that is passed
on (other_nodes.py) has a number for its user, valid until it is answered. The node that carries it
out asks with that number whether the user may configure, write or read, and the node of the login
consults its own backend. Neither password nor token is sent.

A node that does not answer counts as a backend that cannot be reached: the permission is denied.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import msgspec

from leveret.broker.auth.access_control import Decision
from leveret.broker.auth.identity import BackendUnavailable, Identity
from leveret.broker.runtime.pending_in_task import in_task
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import NotAnswered, Rpc
from leveret.mgmt.api.passed_requests import (
    ANSWER_SECONDS_MAX,
    SILENCE_SECONDS_MAX,
    pack,
    unpack,
)
from leveret.mgmt.running_node import RunningNode

TOPIC = "management.permission"
VHOST, RESOURCE, ROUTING_KEY = "vhost", "resource", "topic"
"""The checks, named after the methods of `AuthorizationBackend`."""

_numbers = count(1)


class PermissionQuestion(msgspec.Struct, frozen=True, array_like=True):
    """user: its number. check: one of the above. texts: the arguments of the backend's method."""

    user: int
    check: str
    texts: tuple[bytes, ...]


@contextmanager
def numbered(node: RunningNode, identity: Identity) -> Iterator[int]:
    """Let other nodes ask this one, within the block, for a user's permissions by this number."""
    number = next(_numbers)
    node.users_passed_on[number] = identity
    try:
        yield number
    finally:
        del node.users_passed_on[number]


def answer_for_permissions(node: RunningNode, rpc: Rpc) -> None:
    """Answer questions of other nodes about users whose requests this node has passed on."""

    async def answer(asker: str, content: bytes) -> bytes:
        asked = msgspec.msgpack.decode(content, type=PermissionQuestion)
        identity = node.users_passed_on.get(asked.user)
        if identity is None or node.facade is None:
            raise Refused(f"the request of user {asked.user} is no longer under way")
        access = node.facade.access
        checks: dict[str, Callable[..., Decision]] = {
            VHOST: access.may_use_vhost,
            RESOURCE: access.may_use,
            ROUTING_KEY: access.may_use_topic,
        }
        if asked.check not in checks:
            raise Refused(f"this node knows no permissions of the kind {asked.check}")
        decision = checks[asked.check](identity, *map(unpack, asked.texts))
        is_allowed = decision if isinstance(decision, bool) else await in_task(decision)
        return msgspec.msgpack.encode(is_allowed)

    rpc.answer(TOPIC, answer)


class AskedPermissions:
    """The permissions of one user, from the `node` where it logged in."""

    def __init__(self, rpc: Rpc, node: str, number: int) -> None:
        self._rpc = rpc
        self._node = node
        self._number = number

    async def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Whether the user may access the vhost. Raises BackendUnavailable."""
        return await self._ask(VHOST, vhost, peer_host)

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Whether the user may configure, write or read. Raises BackendUnavailable."""
        return await self._ask(RESOURCE, vhost, kind, name, permission)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Whether the user may publish or bind with this key. Raises BackendUnavailable."""
        return await self._ask(ROUTING_KEY, vhost, exchange, routing_key, permission)

    async def _ask(self, check: str, *texts: str) -> bool:
        question = PermissionQuestion(self._number, check, tuple(map(pack, texts)))
        try:
            answer = await self._rpc.ask(
                self._node, TOPIC, msgspec.msgpack.encode(question), ANSWER_SECONDS_MAX,
                SILENCE_SECONDS_MAX,
            )  # fmt: skip
        except NotAnswered as error:
            raise BackendUnavailable(str(error)) from None
        return msgspec.msgpack.decode(answer, type=bool)
