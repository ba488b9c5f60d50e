"""The messages of one quorum queue that wait for their retry, for operators, while this node leads.

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
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.queue_groups.declared_group import DeclaredGroup, machine_of
from leveret.cluster.quorum.queue_groups.message_reading import read_message
from leveret.storage.messages.addresses import Addresses

READ_WORK: Final = 60
"""The work of reading one message, in the units of broker/runtime/turns.py."""


class RetriesOfGroup:
    """The `WaitingRetries` of a queue."""

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

    def first(self, count_max: int, answer: Answer[list[WaitingRetry]]) -> None:
        """Answer with the first ones. Refused with 541 if they cannot be read."""
        self._read(count_max, answer)

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
            self._read(self.count, found)

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
        known = [position for position in positions if position > 0]
        if known:
            self._propose(intervals_of(known), is_discarded, answer)
        else:
            answer.give(0)

    def _propose(self, intervals: list[int], is_discarded: bool, answer: Answer[int]) -> None:
        if not self._declared.end_delays(self._member, EndDelays(intervals, is_discarded), answer):
            answer.refuse(internal_error("the leader of the queue is about to change: try again"))

    # Reading

    def _read(self, count_max: int, answer: Answer[list[WaitingRetry]]) -> None:
        name = f"reading the delayed retries of {self._member.queue_name}"
        LongWork(self._turns, name, self._reading(count_max, answer)).start()

    def _reading(self, count_max: int, answer: Answer[list[WaitingRetry]]) -> Iterator[Step]:
        found: list[WaitingRetry] = []
        for run in _each(machine_of(self._member).messages.delayed.runs, count_max):
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
                answer.refuse(error)
                return
            assert peeked is not None, "a message at an index is read, or cannot be"
            found.append(WaitingRetry(run.position, run.returns, run.time_ms, peeked.message))
            yield READ_WORK
        answer.give(found)


def _each(runs: list[Run], count_max: int) -> list[Run]:
    """The first messages of runs, each as a run of its own."""
    found: list[Run] = []
    for run in runs:
        for place in range(min(run.count, count_max - len(found))):
            found.append(run.part(place, 1))
        if len(found) == count_max:
            break
    return found
