"""Declarations that are not durable: they do not survive the end of their node.

This keeps RD3 and RD4 of replicated_declarations.py.

No store has them, so a joining node gets all of them from the coordinator, right after the entries
that it missed. They may be lost with a link or with the coordinator: then they are sent again with
the next view. Queues that are not durable are deleted when their node ends: the coordinator
deletes those of nodes that are not in its view, and a node that returns deletes its own. Mirrored
queues are an exception: their records determine their fate (cluster/mirrors/mirror_record.py).
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from leveret.broker.declarations.values import Declaration, DeleteQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.registry.contents import contents
from leveret.broker.registry.registry import Registry
from leveret.broker.runtime.long_work import LongWork, Step
from leveret.broker.runtime.turns import Turns
from leveret.cluster.metadata.messages import AnyMessage, Install, View, ViewMember
from leveret.cluster.metadata.operations import decode_all, encoding_all

PASSING = b"P"
"""The first octet of a frame of declarations that are not durable (RD3). MessagePack structs begin
with another octet."""
SUBMIT_WORK = 100
"""The work of submitting a deletion, in the units of broker/runtime/turns.py."""


class Passing(NamedTuple):
    """Declarations of another node that are not durable, to be applied here (RD3)."""

    declarations: Sequence[Declaration]


def read(payload: bytes) -> Passing | None:
    """Read a frame of declarations that are not durable; None for others. Raises ValueError."""
    return Passing(decode_all(payload[1:])) if payload[:1] == PASSING else None


class PassingDeclarations:
    """The declarations of all nodes that are not durable. submit: submits a deletion."""

    def __init__(
        self, registry: Registry, turns: Turns, submit: Callable[[Declaration], object]
    ) -> None:
        self._registry = registry
        self._turns = turns
        self._submit = submit
        self._newcomers: set[str] = set()
        self._unlinked: set[str] = set()

    def link_down(self, name: str) -> None:
        """A link is down: what was sent may be lost."""
        self._unlinked.add(name)

    def view_begins(self, view: View, before: View | None) -> None:
        """Note the members that may lack these declarations.

        They were not in the previous view, their link was down since, or another node coordinated
        that view.
        """
        known: tuple[ViewMember, ...] = ()
        if before is not None and before.id.coordinator == view.id.coordinator:
            known = before.members
        self._newcomers = {
            member.name for member in view.members
            if member not in known or member.name in self._unlinked
        }  # fmt: skip
        self._unlinked -= self._newcomers

    def lacked(self, name: str, message: AnyMessage) -> Generator[Step, None, bytes | None]:
        """Encode the declarations that a node lacks after a message to it, to follow PASSING; or
        None.
        """
        if isinstance(message, Install) and message.snapshot is None and name in self._newcomers:
            return (yield from encoding_all(contents(self._registry), self._is_passing))
        return None

    def _is_passing(self, it: Declaration) -> bool:
        return not self._registry.is_durable(it)

    def delete_own(self, name: str) -> None:
        """Delete the queues that this node had before it ended, before a client can use them."""
        for _ in self._deleting(self._on(lambda node: node in ("", name))):
            pass

    def delete_of_away(self, view: View) -> None:
        """As the coordinator, delete the queues of nodes that are not in the view, over turns."""
        gone = self._on(lambda node: node not in ("", *view.names))
        LongWork(self._turns, "deleting queues of nodes that ended", self._deleting(gone)).start()

    def _on(self, is_gone: Callable[[str], bool]) -> list[tuple[str, QueueClient]]:
        """The queues, with vhosts, that are not durable and whose nodes have ended or restarted."""
        return [
            (vhost.name, queue)
            for vhost in self._registry.vhosts.values()
            for queue in vhost.queues.values()
            if (queue.is_exclusive or not queue.durable)
            and not queue.placement.record
            and is_gone(queue.placement.node)
        ]

    def _deleting(self, gone: Iterable[tuple[str, QueueClient]]) -> Iterator[int]:
        """Delete those of the queues that were not declared again."""
        for vhost_name, queue in gone:
            vhost = self._registry.vhosts.get(vhost_name)
            if vhost is not None and vhost.queues.get(queue.name) is queue:
                self._submit(DeleteQueue(vhost_name, queue.name))
            yield SUBMIT_WORK
