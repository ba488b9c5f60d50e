"""The messages of one quorum queue that wait for their retry, or in the queue of a delayed message
exchange for the end of their delay, for operators, while this node leads.

The machine knows their positions and times; what is in them is read from the log. So messages that
are chosen by an id are read first, and then named to the machine by their positions. The leader
proposes one entry (`EndDelays`), and the answer is given when it is applied: it has the number of
messages that still waited then.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from leveret.broker.amqp.errors import internal_error, precondition_failed
from leveret.broker.queues.contract.queue_factory import PeekedMessage
from leveret.broker.queues.contract.waiting_retries import (
    ChosenRetries,
    WaitingRetry,
    message_id,
)
from leveret.broker.runtime.long_work import LongWork, Step
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.machine.commands import EndDelays, intervals_of
from leveret.cluster.quorum.machine.runs import MESSAGE_BYTES, Run
from leveret.cluster.quorum.queue_groups.declared_group import DeclaredGroup, machine_of
from leveret.cluster.quorum.queue_groups.message_reading import read_message
from leveret.storage.messages.addresses import Addresses

READ_WORK: Final = 60
"""The work of reading one message, in the units of broker/runtime/turns.py."""


class RetriesOfGroup:
    """The `WaitingInGroup` of a queue."""

    def __init__(
        self,
        declared: DeclaredGroup,
        member: GroupMember,
        addresses: Addresses,
        turns: Turns,
    ) -> None:
        self._declared = declared
        self._member = member
        self._addresses = addresses
        self._turns = turns

    @property
    def count(self) -> int:
        """How many there are."""
        return machine_of(self._member).messages.delayed.count

    @property
    def next_due_ms(self) -> int:
        """When the first one is due; 0 if there is none."""
        return machine_of(self._member).messages.delayed.next_ms()

    def first(self, count_max: int, answer: Answer[list[WaitingRetry]]) -> None:
        """Answer with the first ones. Refused with 541 if they cannot be read."""
        self._read(self._first(count_max), answer)

    def pages(self, bytes_max: int) -> Iterator[Answer[list[WaitingRetry]]]:
        """Read all of them, a page at a time."""
        page: list[Run] = []
        left = bytes_max
        for run in machine_of(self._member).messages.delayed.runs:
            for place in range(run.count):
                page.append(run.part(place, 1))
                left -= run.size + MESSAGE_BYTES
                if left <= 0:
                    yield self._page(page)
                    page, left = [], bytes_max
        if page:
            yield self._page(page)

    def _page(self, runs: list[Run]) -> Answer[list[WaitingRetry]]:
        answer: Answer[list[WaitingRetry]] = Answer()
        self._read(runs, answer, may_have_left=True)
        return answer

    def _first(self, count_max: int) -> list[Run]:
        return _each(machine_of(self._member).messages.delayed.runs, count_max)

    def end(self, chosen: ChosenRetries, is_discarded: bool, answer: Answer[int]) -> None:
        """Make messages ready, or drop them."""
        if not self._declared.takes_retries():
            answer.refuse(
                precondition_failed(
                    "a node of the cluster is of an earlier version, which cannot end the delays "
                    "of quorum queues: update it first"
                )
            )
        elif chosen.are_all:
            self._propose([], is_discarded, answer)
        elif chosen.positions is not None:
            self._end_at(sorted(set(chosen.positions)), is_discarded, answer)
        else:
            found: Answer[list[WaitingRetry]] = Answer()
            found.when_given(
                lambda: self._end_found(found, chosen.message_id, is_discarded, answer)
            )
            self._read(self._first(self.count), found)

    def _end_found(
        self,
        found: Answer[list[WaitingRetry]],
        wanted: str | None,
        is_discarded: bool,
        answer: Answer[int],
    ) -> None:
        try:
            waiting = found.result()
        except Exception as error:
            answer.refuse(error)
            return
        positions = [one.position for one in waiting if message_id(one.message) == wanted]
        self._end_at(sorted(positions), is_discarded, answer)

    def _end_at(self, positions: list[int], is_discarded: bool, answer: Answer[int]) -> None:
        """End the delays at these positions, in ascending order."""
        end = machine_of(self._member).messages.position
        known = [position for position in positions if 0 < position < end]
        if known:
            self._propose(intervals_of(known), is_discarded, answer)
        else:
            answer.give(0)

    def _propose(self, intervals: list[int], is_discarded: bool, answer: Answer[int]) -> None:
        if not self._declared.end_delays(self._member, EndDelays(intervals, is_discarded), answer):
            answer.refuse(internal_error("the leader of the queue is about to change: try again"))

    # Reading

    def _read(
        self, runs: list[Run], answer: Answer[list[WaitingRetry]], *, may_have_left: bool = False
    ) -> None:
        """Read runs of one message each. may_have_left: those that do not wait are left out."""
        name = f"reading the delayed messages of {self._member.queue_name}"
        LongWork(self._turns, name, self._reading(runs, answer, may_have_left)).start()

    def _reading(
        self, runs: list[Run], answer: Answer[list[WaitingRetry]], may_have_left: bool
    ) -> Iterator[Step]:
        found: list[WaitingRetry] = []
        for run in runs:
            read: Answer[PeekedMessage | None] = Answer()
            read_message(self._member, run, self._addresses, read)
            if not read.is_given:
                # The work is woken by this one, as the read has a listener of its own.
                done: Answer[None] = Answer()
                read.when_given(partial(done.give, None))
                yield done
            try:
                peeked = read.result()
            except Exception as error:
                if may_have_left and not self._waits(run):
                    continue
                answer.refuse(error)
                return
            assert peeked is not None, "a message at an index is read, or cannot be"
            found.append(WaitingRetry(run.position, run.returns, run.time_ms, peeked.message))
            yield READ_WORK
        answer.give(found)

    def _waits(self, run: Run) -> bool:
        """Whether the message of a run still waits."""
        waiting = machine_of(self._member).messages.delayed.runs
        return any(one.position <= run.position <= one.last for one in waiting)


def _each(runs: list[Run], count_max: int) -> list[Run]:
    """The first messages of runs, each as a run of its own."""
    found: list[Run] = []
    for run in runs:
        for place in range(min(run.count, count_max - len(found))):
            found.append(run.part(place, 1))
        if len(found) == count_max:
            break
    return found
