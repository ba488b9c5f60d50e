"""The orderly stop of a node's mirrored queues.

The node hands each queue that it leads over to a synchronised mirror, if there is one, and then
reports each of its members as stopped. So no mirror has to wait for a pause of the ring before its
promotion, the next leaders have this node's last decisions, and the records have the order in which
the nodes stopped. A queue without a synchronised mirror waits for this node, or is led by a mirror
that lacks messages, as `ha-promote-on-shutdown` says.

All of this takes `SECONDS_MAX` at most: for the remaining queues, the node looks to the others like
one that died.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.values import ChangePlacement, Submit
from leveret.broker.runtime.pending import Answer
from leveret.cluster.gm.group import Died
from leveret.cluster.mirrors.record_changes import Change, InRing, Promote, encode
from leveret.cluster.mirrors.replica import Replica
from leveret.storage.metadata.metadata import MetadataError

SECONDS_MAX = 10.0
LOOK_SECONDS = 0.01
"""The interval of checks whether the next leaders lead."""

logger = logging.getLogger("leveret.cluster")


class Leaving:
    """The stop of one node. replicas: those of this node. unable: nodes that must not lead."""

    def __init__(
        self,
        replicas: Callable[[], Iterable[Replica]],
        submit: Submit,
        unable: Callable[[], frozenset[str]],
    ) -> None:
        self._replicas = replicas
        self._submit = submit
        self._unable = unable

    async def leave(self) -> None:
        """Hand over the queues led here, and report all members as stopped."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await self._hand_over()
                await self._change(self._deaths())
        except TimeoutError:
            logger.warning(
                "handing over the mirrored queues of this node took longer than %d seconds: the "
                "node stops, and their mirrors take over as if it had died",
                SECONDS_MAX,
            )

    async def _hand_over(self) -> None:
        leading = [one for one in self._replicas() if one.leading is not None]
        terms = {one: one.leading.backing.term for one in leading if one.leading is not None}
        changes = list(self._promotions(leading))
        if not changes:
            return
        await self._change(changes)
        handed_over = [one for one, _ in changes]
        while any(_is_expecting(one, terms[one]) for one in handed_over):
            await asyncio.sleep(LOOK_SECONDS)

    def _promotions(self, leading: Iterable[Replica]) -> Iterator[tuple[Replica, Change]]:
        unable = self._unable()
        for replica in leading:
            record = replica.record
            if record is None or record.leader is None:
                continue
            able = (one.id for one in record.mirrors if one.is_synchronised)
            successor = next((one for one in able if one.node not in unable), None)
            if successor is not None:
                yield replica, Promote(successor, record.leader)

    def _deaths(self) -> Iterator[tuple[Replica, Change]]:
        # A change may be applied immediately, and end a replica.
        for replica in tuple(self._replicas()):
            member = replica.member
            if member is not None:
                yield replica, InRing(Died((member,), member), is_stopped=True)

    async def _change(self, changes: Iterable[tuple[Replica, Change]]) -> None:
        """Submit changes, and wait for all answers. A refused one is made in another way."""
        asked: list[asyncio.Future[None]] = []
        for replica, change in changes:
            asked.append(self._ask_for(replica, change))
        for future in asked:
            await future

    def _ask_for(self, replica: Replica, change: Change) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = replica.queue
        answer: Answer[None] = Answer()

        def answered() -> None:
            try:
                answer.result()
            except (Fault, MetadataError) as error:
                logger.info("a change of %r for the stop of this node is refused: %s", queue, error)
            if not done.done():
                done.set_result(None)

        answer.when_given(answered)
        self._submit(
            ChangePlacement(
                replica.vhost.name, queue.name, queue.placement.identity, encode(change)
            ),
            answer=answer,
        )
        return done


def _is_expecting(replica: Replica, term: int) -> bool:
    """Whether a queue that was handed over has not learnt of its next leader. term: its own."""
    mirror = replica.mirror
    return mirror is not None and mirror.term <= term
