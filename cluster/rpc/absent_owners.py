"""Has another node end the owner of an exclusive queue whose client is gone
(broker/services/absent_owners.py).
"""

import asyncio
from typing import Final

import msgspec

from leveret.broker.amqp.field_table import bytes_of, text_of
from leveret.broker.registry.exclusive_owners import ExclusiveOwners
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.services.absent_owners import AbsentOwners
from leveret.cluster.rpc.rpc import NotAnswered, Rpc

TOPIC: Final = "end absent owner"
SECONDS_MAX: Final = 5.0
ENDED, STAYS = b"\1", b"\0"


class EndOwnerRequest(msgspec.Struct, frozen=True, array_like=True):
    """The connection that owns the queue, and the user. Names may not be UTF-8."""

    owner: bytes
    user: bytes


class AbsentOwnersElsewhere:
    """The `OwnersOfOtherNodes` of this node, and the answers to theirs."""

    def __init__(self, rpc: Rpc, absent: AbsentOwners, owners: ExclusiveOwners) -> None:
        self._rpc = rpc
        self._absent = absent
        self._owners = owners
        self._asking: set[asyncio.Task[None]] = set()
        absent.others = self
        rpc.answer(TOPIC, self._answer)

    def end_if_gone(self, node: str, owner: str, user: str, answer: Answer[bool]) -> None:
        """Ask a node to end this user's connection if its client is gone."""
        asked = msgspec.msgpack.encode(EndOwnerRequest(bytes_of(owner), bytes_of(user)))
        task = asyncio.get_running_loop().create_task(self._ask(node, asked, answer))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, node: str, asked: bytes, answer: Answer[bool]) -> None:
        try:
            answer.give(await self._rpc.ask(node, TOPIC, asked, SECONDS_MAX) == ENDED)
        except NotAnswered:
            # The queue stays locked, as without this node's question.
            answer.give(False)

    async def _answer(self, _node: str, text: bytes) -> bytes:
        """Answer another node. A connection that is unknown here is about to lose its queues."""
        asked = msgspec.msgpack.decode(text, type=EndOwnerRequest)
        owner = self._owners.get(text_of(asked.owner))
        if owner is None:
            return STAYS
        ended = await given_in_task(self._absent.end_if_gone(owner, text_of(asked.user)))
        return ENDED if ended else STAYS
