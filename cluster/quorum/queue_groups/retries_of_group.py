"""The messages of one quorum queue that wait for their retry, or in the queue of a delayed message
exchange for the end of their delay, for operators, while this node leads.

The machine knows their positions and times; what is in them is read from the log. So messages that
are chosen by an id are read first, and then named to the machine by their positions. The leader
proposes one entry (`EndDelays`), and the answer is given when it is applied: it has the number of
messages that still waited then.
"""

from collections.abc import Iterator, Set
from functools import partial
from itertools import chain, islice
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
PASSED_OVER: Final = 4
"""As many messages of an entry are passed over with a unit of work, to read one behind them."""
PAGE_RUNS_MAX: Final = 500
"""As many runs are taken from the machine at once, while it changes."""
READ_BYTES: Final = 128 * 1024
"""About as many bytes of messages are in memory while those with an id are sought."""


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
        runs = machine_of(self._member).messages.delayed.first_after(0, 0, count_max)
        singles = list(islice(chain.from_iterable(map(_singles, runs)), count_max))
        self._start(self._answering(singles, answer))

    def pages(self, bytes_max: int) -> Iterator[Answer[list[WaitingRetry]]]:
        """Read all of them, a page at a time."""
        for runs in self._pages(bytes_max):
            answer: Answer[list[WaitingRetry]] = Answer()
            self._start(self._answering(runs, answer, may_have_left=True))
            yield answer

    def _pages(self, bytes_max: int) -> Iterator[list[Run]]:
        """All messages in their order, each as a run of its own."""
        time_ms = position = 0
        while True:
            runs = machine_of(self._member).messages.delayed.first_after(
                time_ms, position, PAGE_RUNS_MAX
            )
            if not runs:
                return
            time_ms, position = runs[-1].time_ms, runs[-1].last
            page: list[Run] = []
            left = bytes_max
            for run in chain.from_iterable(map(_singles, runs)):
                page.append(run)
                left -= run.size + MESSAGE_BYTES
                if left <= 0:
                    yield page
                    page, left = [], bytes_max
            if page:
                yield page

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
            self._propose(EndDelays([], is_discarded), answer)
        elif chosen.positions is not None:
            times = chosen.first_ms, chosen.last_ms
            self._end_at(set(chosen.positions), times, is_discarded, answer)
        else:
            self._start(self._ending(chosen.message_id, is_discarded, answer))

    def _ending(
        self, wanted: str | None, is_discarded: bool, answer: Answer[int]
    ) -> Iterator[Step]:
        """The steps of ending the delays of messages with an id."""
        found: set[int] = set()
        for page in self._pages(READ_BYTES):
            read: Answer[list[WaitingRetry]] = Answer()
            yield from self._answering(page, read, may_have_left=True)
            try:
                waiting = read.result()
            except Exception as error:
                answer.refuse(error)
                return
            found.update(one.position for one in waiting if message_id(one.message) == wanted)
        self._end_at(found, (0, 0), is_discarded, answer)

    def _end_at(
        self, positions: Set[int], times: tuple[int, int], is_discarded: bool, answer: Answer[int]
    ) -> None:
        """End the delays at these positions."""
        end = machine_of(self._member).messages.position
        known = sorted(position for position in positions if 0 < position < end)
        if known:
            self._propose(EndDelays(intervals_of(known), is_discarded, *times), answer)
        else:
            answer.give(0)

    def _propose(self, command: EndDelays, answer: Answer[int]) -> None:
        if not self._declared.end_delays(self._member, command, answer):
            answer.refuse(internal_error("the leader of the queue is about to change: try again"))

    # Reading

    def _start(self, steps: Iterator[Step]) -> None:
        name = f"reading the delayed messages of {self._member.queue_name}"
        LongWork(self._turns, name, steps).start()

    def _answering(
        self, runs: list[Run], answer: Answer[list[WaitingRetry]], *, may_have_left: bool = False
    ) -> Iterator[Step]:
        """The steps of reading runs of one message each. may_have_left: those that do not wait any
        more are left out.
        """
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
                delayed = machine_of(self._member).messages.delayed
                if may_have_left and not delayed.has(run.time_ms, run.position):
                    continue
                answer.refuse(error)
                return
            assert peeked is not None, "a message at an index is read, or cannot be"
            found.append(WaitingRetry(run.position, run.returns, run.time_ms, peeked.message))
            yield READ_WORK + run.place // PASSED_OVER
        answer.give(found)


def _singles(run: Run) -> Iterator[Run]:
    """The messages of a run, each as a run of its own."""
    for place in range(run.count):
        yield run.part(place, 1)
