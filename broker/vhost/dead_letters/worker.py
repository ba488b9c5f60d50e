"""Dead-lettering at least once: publishes the dead letters kept by one queue, with confirms.

Promise: a letter is settled in its source only when every queue that it was routed to has confirmed
it, and there was at least one. Until then it is in its source
(cluster/quorum/queue_groups/dead_letters.py).

Not promised: that a target gets a letter only once. After a crash all unsettled letters are
published again.

Mechanism: the worker takes letters from the source while fewer than its prefetch limit are under
way. A letter that reaches no queue (the exchange is missing, nothing is bound, or it would form a
cycle), that reaches a queue whose node is down, or whose target was lost before it confirmed, is
tried again as soon as the routes of the virtual host change, and after the retry time. A letter
that a target refused is tried again after the retry time, for all targets that have not confirmed
it. A target that holds the letter will confirm it or die, so it does not get it again.

Invariants:

DL1  At most `prefetch_count` letters are under way.
DL2  A target that holds or has confirmed a letter does not get it again.

Source: RabbitMQ's `rabbit_fifo_dlx_worker`. Differences: RabbitMQ only checks routes after the
retry time; a letter whose routes were removed after it was confirmed once is settled.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from leveret.broker.events.taps import Taps
from leveret.broker.exchanges.router import WORK_AT_ONCE, Route
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.retained_dead_letters import (
    DeadLetterSource,
    RetainedDeadLetter,
)
from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.counts import NodeCounts
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.runtime.turns import Actor
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.dead_letters.publishing import (
    Dead,
    DeadLetteringVhost,
    letter_runs,
    work_of,
)
from leveret.broker.vhost.fan_out import ROUTE_STEP_WORK
from leveret.broker.vhost.routing import ROUTED_WORK, hand_over, header_of
from leveret.storage.messages.message import Message

Target = QueueClient | Exchange
"""Where a letter goes: a queue, or an exchange that delays it."""

REASONS_MAX = 20
"""Logged reasons for keeping letters, until settings change: limited, as clients name queues."""

logger = logging.getLogger("leveret.vhost")


class WorkerSettings(NamedTuple):
    """prefetch_count: letters that may be under way. retry_ms: the time between two attempts."""

    prefetch_count: int = 32
    retry_ms: int = 180_000


class Publishing(NamedTuple):
    """What is published for a letter, and where. ttl_ms: its time to live; None if it has none.

    routing_keys: that of its address, and those of CC and BCC. in_cycle: the names of the queues
    that do not get it.
    """

    exchange: Exchange
    message: Message
    routing_keys: Sequence[str]
    in_cycle: frozenset[str] = frozenset()
    ttl_ms: int | None = None


class WorkerVhost(DeadLetteringVhost, Protocol):
    """The virtual host, as a worker sees it. generation: grows when routes change."""

    name: str
    counts: NodeCounts
    generation: int

    def wake_when_routes_change(self, actor: Actor) -> None:
        """Wake the actor once, at the next change of routes."""


@dataclass(slots=True, eq=False)
class Letter:
    """A letter that is under way.

    time_s: the time of its death, from its header. waiting: targets that hold it. settled: targets
    that have confirmed it. is_refused: a target has refused it. lacks_targets: it reaches no
    target, or one of them is down or lost. retry_at_ms: when it is tried again for one of these
    two reasons. is_due: it is tried again in this turn or the next, or its route is being found.
    """

    kept: RetainedDeadLetter
    time_s: int
    waiting: set[Target] = field(default_factory=set)
    settled: set[Target] = field(default_factory=set)
    is_refused: bool = False
    lacks_targets: bool = False
    retry_at_ms: int = 0
    is_due: bool = False

    @property
    def is_done(self) -> bool:
        """Whether every target has confirmed it, and there is at least one."""
        is_tried = self.is_refused or self.lacks_targets or self.is_due
        return bool(self.settled) and not (self.waiting or is_tried)


class Confirm:
    """The `Publisher` of one letter to one target."""

    __slots__ = ("_letter", "_target", "_worker", "is_pending")

    def __init__(self, worker: "AtLeastOnceWorker", letter: Letter, target: Target) -> None:
        self._worker = worker
        self._letter = letter
        self._target = target
        self.is_pending = False

    def hold(self, first: int, count: int, holder: object) -> None:
        """The target will confirm it later."""
        self.is_pending = True

    def confirm(self, first: int, holder: object) -> None:
        """The target has it safely."""
        self._worker.confirmed(self._letter, self._target)

    def refuse(self, number: int) -> None:
        """The target refuses it."""
        self.is_pending = True
        self._worker.refused(self._letter, self._target)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The target will confirm nothing more."""
        if is_settled:
            self._worker.confirmed(self._letter, self._target)
        else:
            self._worker.lost(self._letter, self._target)


class AtLeastOnceWorker(Actor):
    """The worker of one queue, which takes letters in its turns."""

    __slots__ = (
        "_due", "_generation", "_is_closed", "_letters", "_looks_again", "_queue", "_settings",
        "_source", "_timer", "_vhost", "_warned",
    )  # fmt: skip

    def __init__(
        self,
        vhost: WorkerVhost,
        queue: QueueClient,
        source: DeadLetterSource,
        settings: WorkerSettings,
    ) -> None:
        super().__init__()
        self._vhost = vhost
        self._queue = queue
        self._source = source
        self._settings = settings
        self._letters: dict[int, Letter] = {}
        self._due: deque[Letter] = deque()
        self._generation = vhost.generation
        self._looks_again = self._is_closed = False
        self._warned: set[str] = set()
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"the dead-letter worker of {self._queue!r}"

    # Calls by the source

    def wake(self) -> None:
        """Take a turn: there are letters to be taken."""
        self._vhost.turns.wake(self)

    def look_again(self) -> None:
        """Try all letters again: the dead-letter exchange or routing key may have changed."""
        self._looks_again = True
        self._warned.clear()
        self.wake()

    def forget(self) -> None:
        """Forget all letters: the source has dropped them."""
        self._letters.clear()
        self._due.clear()

    def close(self) -> None:
        """Stop, and settle no more letters: the queue ends."""
        self._is_closed = True
        self.forget()
        self._stop_timer()

    # Publishing

    def take_turn(self) -> None:
        """Publish letters that are due again, and new ones, up to the work of one turn."""
        if self._is_closed:
            return
        self._find_due()
        turns = self._vhost.turns
        while turns.work_left > 0:
            letter = self._due.popleft() if self._due else self._take()
            if letter is None:
                break
            self._publish(letter)
        else:
            turns.wake(self)
        self._wait()

    def _find_due(self) -> None:
        vhost = self._vhost
        routes_changed = self._looks_again or vhost.generation != self._generation
        self._looks_again, self._generation = False, vhost.generation
        now_ms = vhost.clock.now_ms()
        for letter in self._letters.values():
            is_late = _is_tried_again(letter) and letter.retry_at_ms <= now_ms
            if (is_late or (letter.lacks_targets and routes_changed)) and not letter.is_due:
                letter.is_due = True
                self._due.append(letter)

    def _take(self) -> Letter | None:
        """A letter that was not published before."""
        if len(self._letters) >= self._settings.prefetch_count:
            return None
        kept = self._source.take()
        if kept is None:
            return None
        letter = Letter(kept, int(self._vhost.clock.wall_time_s()))
        self._letters[kept.entry.position] = letter
        assert len(self._letters) <= self._settings.prefetch_count, "DL1"
        return letter

    def _publish(self, letter: Letter) -> None:
        """Find the targets of a letter, and give it to those that do not have it."""
        vhost, kept = self._vhost, letter.kept
        vhost.turns.work_left -= work_of(kept.message)
        letter.retry_at_ms = vhost.clock.now_ms() + self._settings.retry_ms
        letter.is_refused = letter.is_due = False
        published = self._published(letter)
        if published is None:
            letter.lacks_targets = not letter.settled
        else:
            message = published.message
            found = Route(published.exchange, published.routing_keys, header_of(message))
            is_complete = found.go_on(WORK_AT_ONCE)
            vhost.turns.work_left -= found.work
            if is_complete:
                self._give(letter, published, found)
            else:
                letter.is_due = True
                finding = self._finding(letter, published, found)
                LongWork(vhost.turns, f"the route of a letter of {self!r}", finding).start()
        self._settle_if_done(letter)

    def _published(self, letter: Letter) -> Publishing | None:
        """What is published for a letter now; None, with a log line, if there is no exchange."""
        name = self._queue.options.dead_letter_exchange
        exchange = None if name is None else self._vhost.exchanges.get(name)
        if exchange is None:
            self._warn("its dead-letter exchange does not exist")
            return None
        dead = Dead(self._queue, [letter.kept.message], letter.kept.reason)
        (run,) = letter_runs(self._vhost, dead, exchange.name, letter.time_s)
        return Publishing(exchange, _as_kept(run.letters[0]), run.routing_keys, run.in_cycle)

    def _finding(self, letter: Letter, published: Publishing, found: Route) -> Iterator[int]:
        """The steps of finding a long route (broker/runtime/long_work.py), then of giving it."""
        while not found.go_on(ROUTE_STEP_WORK):
            yield ROUTE_STEP_WORK
        if self._letters.get(letter.kept.entry.position) is letter:
            letter.is_due = False
            self._give(letter, published, found)
            self._settle_if_done(letter)
            self.wake()

    def _give(self, letter: Letter, published: Publishing, found: Route) -> None:
        """Give a letter to all targets on its route that do not have it."""
        vhost, message = self._vhost, published.message
        targets = self._targets(found, published.in_cycle)
        letter.lacks_targets = found.lacks_queues
        if found.lacks_queues:
            self._warn("nodes of queues that they reach are down")
        elif not (targets or letter.settled or letter.waiting):
            self._reaches_none(letter, published, found)
        if not letter.settled and not letter.waiting:
            for history in found.remembering:
                history.remember(message, header_of(message))
        new = [one for one in targets if one not in letter.settled and one not in letter.waiting]
        if vhost.tracer is not None and new:
            given = set(new)
            self._trace(vhost.tracer, letter, published, [
                one for one in found.queues if one in given
            ])  # fmt: skip
        letter.waiting.update(new)
        giving = self._giving(letter, published, new)
        LongWork(vhost.turns, f"a letter of {self!r}", giving).start()

    def _reaches_none(self, letter: Letter, published: Publishing, found: Route) -> None:
        """A letter is routed to no queue: it waits until a change of routes, unless an exchange
        has refused it as a duplicate.
        """
        if found.refusing:
            letter.settled.add(published.exchange)
            return
        letter.lacks_targets = True
        what = resource(EXCHANGE, published.exchange.name, self._vhost.name)
        self._warn(f"they reach no queue from {what}")

    def _trace(
        self, tracer: Taps, letter: Letter, published: Publishing, queues: list[QueueClient]
    ) -> None:
        kept = letter.kept
        tracer.dead_lettered(
            self._queue, kept.message, kept.reason, published.message, published.routing_keys,
            queues,
        )  # fmt: skip

    def _giving(
        self, letter: Letter, published: Publishing, targets: list[Target]
    ) -> Iterator[int]:
        """The steps of giving a letter to its targets (broker/runtime/long_work.py)."""
        for target in targets:
            confirm = Confirm(self, letter, target)
            if isinstance(target, Exchange) or not target.is_deleted:
                hand_over(target, published.message, confirm, published.ttl_ms)
            if not confirm.is_pending:
                self.confirmed(letter, target)
            yield ROUTED_WORK

    def _targets(self, found: Route, in_cycle: frozenset[str]) -> list[Target]:
        targets: list[Target] = [one for one in found.delaying if isinstance(one, Exchange)]
        for queue in found.queues:
            if queue.name in in_cycle:
                self._warn(f"they would reach {queue!r} in a cycle")
            else:
                targets.append(queue)
        return targets

    def _warn(self, why: str) -> None:
        """Log once why letters stay in their queue."""
        if why in self._warned or len(self._warned) == REASONS_MAX:
            return
        self._warned.add(why)
        is_last = len(self._warned) == REASONS_MAX
        more = " (further reasons are not logged)" if is_last else ""
        logger.warning("%s%s", self._warning(why), more)

    def _warning(self, why: str) -> str:
        return (
            f"{self._queue!r} retains its dead letters: {why}; declare the missing exchange, queue "
            "or binding, or change the policy"
        )

    # Confirms

    def confirmed(self, letter: Letter, target: Target) -> None:
        """A target has the letter safely."""
        letter.waiting.discard(target)
        letter.settled.add(target)
        self._settle_if_done(letter)

    def refused(self, letter: Letter, target: Target) -> None:
        """A target refuses the letter: try again later."""
        letter.waiting.discard(target)
        letter.is_refused = True
        self.wake()

    def lost(self, letter: Letter, target: Target) -> None:
        """A target will not confirm the letter: try again when routes change, or later."""
        letter.waiting.discard(target)
        letter.lacks_targets = True
        self.wake()

    def _settle_if_done(self, letter: Letter) -> None:
        position = letter.kept.entry.position
        if not letter.is_done or self._letters.get(position) is not letter:
            return
        del self._letters[position]
        self._source.settle(letter.kept)
        self._count_settled()
        if self._source.has_ready:
            self.wake()

    def _count_settled(self) -> None:
        self._vhost.counts.kept_confirmed[self._queue.kind.name] += 1

    # Waiting

    def _wait(self) -> None:
        """Take a turn when a letter is to be tried again."""
        waiting = [letter for letter in self._letters.values() if _is_tried_again(letter)]
        self._stop_timer()
        if not waiting:
            return
        if any(letter.lacks_targets for letter in waiting):
            self._vhost.wake_when_routes_change(self)
        clock = self._vhost.clock
        delay_ms = min(letter.retry_at_ms for letter in waiting) - clock.now_ms()
        self._timer = clock.call_later_ms(max(0, delay_ms), self.wake)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _as_kept(letter: Message) -> Message:
    """A letter that durable queues keep on disk, whatever its delivery mode."""
    header = header_of(letter).as_persistent()
    return Message(letter.address, header, letter.body, None, letter.number)


def _is_tried_again(letter: Letter) -> bool:
    return letter.is_refused or letter.lacks_targets
