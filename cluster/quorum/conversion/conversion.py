"""The conversion of one queue, by its home node: steps 2 to 8 of docs/design/conversion.md.

Invariants:
CN1. The name passes to the successor only if all nodes that run have held the queue since before
     the copy, and no link to them was lost.
CN2. The replacement begins when all nodes have on disk that it is decided, and nodes that start
     hold the queue then. So it is never undone: the queue may be deleted, and clients may use the
     successor, where it is made.
"""

import asyncio
import logging

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.decided_replacements import (
    DECIDED_REPLACEMENT,
    carrying_out,
    decision,
    giving_up,
)
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import ReplaceQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import TYPE_ARGUMENT
from leveret.broker.queues.contract.status import SINGLE_ACTIVE
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.conversion.copied_messages import TryAgain
from leveret.cluster.quorum.conversion.copying import Copying
from leveret.cluster.quorum.conversion.directions import Direction
from leveret.cluster.quorum.conversion.early_copy import EarlyCopy
from leveret.cluster.quorum.conversion.node_holds import (
    FENCE,
    KEEP,
    RELEASE,
    ConsumerName,
    NodeHold,
    held_by,
    name_of,
)
from leveret.cluster.quorum.conversion.parts import (
    HOLD_SECONDS_MAX,
    Parts,
    delete_successor,
    require_few,
)
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import NotAnswered
from leveret.storage.messages.message import bytes_of
from leveret.storage.metadata.metadata import MetadataError

TRIES, PAUSE_SECONDS = 5, 0.2
"""If messages are just being returned, the queue is held again after a pause."""
KEEP_SECONDS_MAX, SILENCE_SECONDS_MAX = 3600.0, 10.0
"""The request to hold a queue is answered when the hold ends."""

logger = logging.getLogger("leveret.cluster")


class Conversion:
    """One attempt to convert a queue."""

    def __init__(
        self, parts: Parts, vhost: VirtualHost, direction: Direction, requester: Requester
    ) -> None:
        self._parts = parts
        self._vhost = vhost
        self._direction = direction
        self._requester = requester
        self._arguments = {**direction.queue.arguments, TYPE_ARGUMENT: ("S", direction.kind)}
        self._what = resource(QUEUE, direction.queue.name, vhost.name)
        self._others = parts.others
        self._keeping: dict[str, asyncio.Task[bytes]] = {}

    @property
    def _queue(self) -> QueueClient:
        return self._direction.queue

    async def run(self) -> None:
        """Convert the queue. Raises Refused; then it is as it was."""
        try:
            await self._run()
        finally:
            self._direction.end()

    async def _run(self) -> None:
        direction = self._direction
        queue = await self._declare_successor()
        copying = Copying(direction.successor(queue), self._parts.services.clock)
        early = EarlyCopy(direction.messages, copying, self._what)
        try:
            for left in reversed(range(TRIES)):
                await self._copy_early(early)
                await direction.prepare()
                # Clients may have published many messages meanwhile.
                await self._copy_early(early)
                try:
                    await self._finish(copying, queue)
                    return
                except TryAgain as error:
                    if not left:
                        raise
                    logger.info("%s is not converted yet: %s", self._what, error)
                    await asyncio.sleep(PAUSE_SECONDS)
        except Refused:
            delete_successor(self._vhost, queue)
            raise
        except Fault as error:
            delete_successor(self._vhost, queue)
            raise Refused(str(error)) from None

    async def _copy_early(self, early: EarlyCopy) -> None:
        if self._direction.copies_early:
            await early.run()

    async def _finish(self, copying: Copying, successor: QueueClient) -> None:
        """Hold the queue everywhere, copy the rest, and give the name to the successor.

        Raises Refused; then the queue is released.
        """
        hold = self._direction.hold()
        hold.active = self._active()
        self._others = self._parts.others
        logger.info("%s is held to become a %s queue", self._what, self._direction.kind)
        try:
            try:
                async with asyncio.timeout(HOLD_SECONDS_MAX):
                    fenced = await self._hold_others(hold)
                    await self._copy(hold, copying, fenced)
            except TimeoutError:
                raise Refused("it takes too long") from None
            except (NotAnswered, Fault) as error:
                raise Refused(str(error)) from None
            except Refused:
                raise
            except Exception as error:
                # Clients wait until the queue is released.
                logger.exception("%s cannot be converted", self._what)
                raise Refused(f"an unexpected error: {error!r}") from None
            await self._replace(successor)
        except Refused:
            self._direction.release()
            hold.end()
            self._parts.holds.subscribe_left(hold)
            await self._release_others()
            raise
        self._parts.holds.subscribe_left(hold)

    def _active(self) -> ConsumerName | None:
        """The single active consumer; None if there is none."""
        if not self._queue.options.single_active_consumer:
            return None
        consumers = self._queue.figures.consumers()
        active = [one for one in consumers if one.activity == SINGLE_ACTIVE]
        return name_of(active[0]) if active else None

    # 2. The successor

    async def _declare_successor(self) -> QueueClient:
        """Declare it, and wait until it works."""
        vhost, declaration = self._vhost, self._direction.declaration(self._arguments)
        name = declaration.name
        if name in vhost.queues:
            delete_successor(vhost, vhost.queues[name])
            raise Refused("an earlier conversion is just being given up; try again")
        try:
            await in_task(self._parts.services.declarations.submit(declaration))
            successor = vhost.queues[name]
            works: Answer[int] = Answer()
            successor.purge(works)
            await given_in_task(works)
        except (Fault, MetadataError, KeyError) as error:
            if name in vhost.queues:
                delete_successor(vhost, vhost.queues[name])
            raise Refused(f"its successor cannot be declared: {error}") from None
        return successor

    # 3 to 5. Holding and copying

    async def _hold_others(self, hold: NodeHold) -> dict[str, bytes]:
        """Hold the queue on all other nodes (NH1); returns their answers to the fence.

        Raises Refused and NotAnswered.
        """
        rpc, text = self._parts.rpc, held_by(self._vhost.name, self._queue)
        keeping = held_by(self._vhost.name, self._queue, active=hold.active)
        for node in self._others:
            asked = rpc.ask(node, KEEP, keeping, KEEP_SECONDS_MAX, SILENCE_SECONDS_MAX)
            self._keeping[node] = asyncio.ensure_future(asked)
            self._keeping[node].add_done_callback(_kept)
        fences = [rpc.ask(node, FENCE, text, HOLD_SECONDS_MAX) for node in self._others]
        answers = await asyncio.gather(*fences, return_exceptions=True)
        self._check_nodes()
        fenced: dict[str, bytes] = {}
        for node, answer in zip(self._others, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            fenced[node] = answer
        return fenced

    def _check_nodes(self) -> None:
        """Raise Refused unless all nodes hold the queue, and no other node has come (CN1)."""
        for node, keeping in self._keeping.items():
            if keeping.done():
                error = keeping.exception()
                raise Refused(f"node {node} does not hold it: {error or 'it was deleted'}")
        if self._parts.others != self._others:
            raise Refused("a node has started or stopped meanwhile")

    async def _copy(self, hold: NodeHold, copying: Copying, fenced: dict[str, bytes]) -> None:
        """Hold the queue here, and copy what is not copied (CO1)."""
        self._parts.holds.check(self._vhost, self._queue)
        hold.begin()
        left = await self._direction.left(copying.copied_to, copying.taken_to, fenced)
        require_few(len(left.rest), bytes_of(left.rest))
        await self._direction.hand_over(left.held, await copying.finish(left))

    async def _release_others(self) -> None:
        text = held_by(self._vhost.name, self._queue)
        asked = [
            self._parts.rpc.ask(node, RELEASE, text, HOLD_SECONDS_MAX)
            for node, keeping in self._keeping.items()
            if not keeping.done()
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.debug("a node no longer held %r: %s", self._queue, outcome)

    # 7 and 8. The name

    async def _replace(self, successor: QueueClient) -> None:
        """Give the name to the successor (CN2). Raises Refused if it stays with the queue."""
        queue = self._queue
        self._check_nodes()
        it = ReplaceQueue(
            self._vhost.name, queue.name, queue.placement.identity, successor.name,
            successor.placement.identity, encode_table(self._arguments),
            acting_user=self._requester.user,
        )  # fmt: skip
        is_decided = False
        try:
            await in_task(self._parts.services.declarations.submit(decision(it)))
            is_decided = True
            await self._carry_out(it)
        except (MetadataError, RequirementError) as error:
            if self._is_replaced_by(successor):
                return  # Another node has carried it out.
            is_alone = not self._others
            if (is_decided or is_alone) and not self._has_decision(it):
                raise Refused(str(error)) from None
            # The other nodes may have it: this node learns that when it joins them again.
            logger.error(
                "it is unknown whether %s was converted; its clients wait until this node "
                "reaches the others again: %s", self._what, error,
            )  # fmt: skip
            raise

    async def _carry_out(self, it: ReplaceQueue) -> None:
        """Make the decided replacement. Raises Refused if it is given up.

        This node may give it up: no other one makes it while this one runs.
        """
        submit = self._parts.services.declarations.submit
        try:
            # A node that started before the decision did not hold the queue (CN1).
            self._check_nodes()
            await in_task(submit(*carrying_out(it), requester=self._requester))
        except (Fault, Refused) as error:
            await in_task(submit(giving_up(it)))
            raise Refused(str(error)) from None

    def _has_decision(self, it: ReplaceQueue) -> bool:
        parameters = self._parts.services.parameters
        return parameters.get(DECIDED_REPLACEMENT, it.vhost, it.successor) is not None

    def _is_replaced_by(self, successor: QueueClient) -> bool:
        return self._vhost.queues.get(self._queue.name) is successor


def _kept(keeping: asyncio.Task[bytes]) -> None:
    """A node has ended its hold: after the conversion only this looks at the outcome."""
    if not keeping.cancelled() and (error := keeping.exception()) is not None:
        logger.debug("a node has not said that its hold has ended: %s", error)
