"""Actors and their turns: how the one thread of the broker is shared.

An actor (a queue, the dead-letterer) is woken when it has something to do, and gets a turn soon
after. A turn does a bounded amount of work; an actor that has more to do wakes itself again and
waits behind the others. When all woken actors have had their turn, connections with output are
flushed: all output of one round for one socket is written in one system call.

A round gives way to the event loop after `ROUND_SECONDS_MAX`, however many actors are waiting, so
that sockets are read and timers run in between. Without that, a publisher at full speed starves its
consumers.

The work of one turn is bounded by `work_left`, in units of a quarter to half a microsecond: a
message that is handled, an entry in a queue. Each actor begins its turn with `WORK_MAX`, and all
input of a round together has the same amount. Code that does many small pieces of work subtracts
them there. When no work is left it stops, and continues in its next turn: an actor wakes itself,
and input waits with `after_round`. So a turn is bounded in messages times queues, for any number of
connections and queues.

Input can be held (`hold`): until `release`, bytes from sockets wait, as if no work were left.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from mypy_extensions import mypyc_attr

from leveret.broker.runtime.loop_watch import NOTED_SECONDS, LoopWatch
from leveret.broker.runtime.pending import Answer

ROUND_SECONDS_MAX: Final = 0.004
ALONE_SECONDS: Final = 0.000_1
"""A read that comes this long after the previous one is assumed to be the only one in this turn of
the loop: its round follows at once, which saves a turn (15 to 20% of the time of one message)."""
ALONE_BYTES_MAX: Final = 16 * 1024
ALONE_WORK_MAX: Final = 1000
"""Such a read has at most this many bytes and this much work: the work of its round is added."""
SMALL_PUBLISHER_ROUNDS: Final = 100
"""The rounds within which a publisher of little is expected to publish again; with a publisher
at full speed they take a tenth of a second."""
AFTER_ROUNDS_MAX: Final = 8
"""A publisher that was paused waits for the queues it filled, but not for a backlog to drain."""
NEVER: Final = float("inf")
WORK_MAX: Final = 16_000
"""The units of work of one turn: five to ten milliseconds."""

logger = logging.getLogger("leveret.broker")


@mypyc_attr(allow_interpreted_subclasses=True)
class Actor:
    """An object that takes turns. is_awake: it is waiting for its turn.

    Like `Flushable` this is a class, not a Protocol: compiled code calls the methods of a class
    directly, and those of a Protocol by name, which takes 300 instructions more.
    """

    __slots__ = ("is_awake",)

    def __init__(self) -> None:
        self.is_awake = False

    def take_turn(self) -> None:
        """Do a bounded amount of work; wake up again if there is more."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Flushable:
    """An object that gathers output over a round. is_dirty: it is on the list to be flushed."""

    __slots__ = ("is_dirty",)

    def __init__(self) -> None:
        self.is_dirty = False

    def flush(self) -> None:
        """Write the gathered output."""


class TurnOver(Exception):
    """Input was handled in part: no work is left in this turn, or it waits for an actor.

    steps: the rest of the input, to be called in order in the next turn. until: given when another
    turn may make progress; None if any turn may.
    """

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self.steps = steps
        self.until: Answer[None] | None = None

    def followed_by(self, other: "TurnOver") -> "TurnOver":
        """Return it with the steps of another `TurnOver` appended."""
        self.steps = (*self.steps, *other.steps)
        return self


class NextTurn(Answer[None]):
    """An answer that is given in a later turn (`Turns.give_way`). until: as in `TurnOver`."""

    __slots__ = ("_turns", "until")

    def __init__(self, turns: "Turns", until: Answer[None] | None = None) -> None:
        super().__init__()
        self._turns = turns
        self.until = until

    def turn_over(self, step: Callable[[], object]) -> TurnOver:
        """Return the end of a turn, for input that awaits this. step: continues the input."""
        over = TurnOver(step)
        over.until = self.until
        return over

    def when_given(self, listener: Callable[[], object]) -> None:
        """Call the listener in a later turn."""
        super().when_given(listener)
        if self.until is None:
            self._give_later()
        else:
            self.until.when_given(self._give_later)

    def _give_later(self) -> None:
        self._turns.after_round(lambda: self.give(None))


@mypyc_attr(allow_interpreted_subclasses=True)
class Turns:
    """The actors that wait for their turn, and the connections that wait to be flushed.

    rounds: the number of rounds so far. now_ms: the broker's time at the beginning of this round,
    or of the read that is being handled; reading the clock for each message would cost more. watch:
    told of long turns. work_left: the work that may still be done in this turn (see the module). It
    is below 0 if the last piece of work took more than was left. is_held: no input is handled.
    overdue_at: the time for `when_overdue`. small_publisher, small_publish_at: the publisher of the
    last small read (an id), and its round.
    """

    __slots__ = (
        "_actors",
        "_after",
        "_before",
        "_before_batch",
        "_clock_ms",
        "_clock_s",
        "_dirty",
        "_is_reading",
        "_is_scheduled",
        "_is_wanted",
        "_last_read_at",
        "_loop",
        "_overdue",
        "_rounds_waited",
        "is_held",
        "now_ms",
        "overdue_at",
        "rounds",
        "small_publish_at",
        "small_publisher",
        "watch",
        "work_left",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        watch: LoopWatch,
        clock_ms: Callable[[], int] | None = None,
        clock_s: Callable[[], float] = perf_counter,
    ) -> None:
        """clock_ms: the broker's clock, if it is not the real time. clock_s: measures turns."""
        self._loop = loop
        self.watch = watch
        self._clock_ms = clock_ms
        self._clock_s = clock_s
        self.now_ms = 0
        self._look_at_clock()
        self._actors: list[Actor] = []
        self._dirty: list[Flushable] = []
        self._after: deque[Callable[[], object]] = deque()
        self._before: list[Callable[[], object]] = []
        self._before_batch: list[Callable[[], object]] = []
        self._is_scheduled = False
        self._is_reading = self._is_wanted = False
        self._last_read_at = 0.0
        self._rounds_waited = 0
        self._overdue: Callable[[], object] | None = None
        self.overdue_at = NEVER
        self.is_held = False
        self.rounds = 0
        self.work_left = WORK_MAX
        self.small_publisher = 0
        self.small_publish_at = -SMALL_PUBLISHER_ROUNDS

    @property
    def waiting(self) -> int:
        """The number of actors that wait for their turn."""
        return len(self._actors)

    def affordable(self, work: int) -> int:
        """Return how many pieces of this much work still fit into this turn: at least one, unless
        no work is left.
        """
        return max(1, self.work_left // work) if self.work_left > 0 else 0

    async def give_way(self) -> None:
        """In the coroutine of a method: continue in a later turn if no work is left in this one."""
        if self.work_left <= 0:
            await NextTurn(self)

    def wake(self, actor: Actor) -> None:
        """Give the actor a turn soon."""
        if not actor.is_awake:
            actor.is_awake = True
            self._actors.append(actor)
            self._schedule()

    def flush_later(self, flushable: Flushable) -> None:
        """Flush at the end of the round."""
        if not flushable.is_dirty:
            flushable.is_dirty = True
            self._dirty.append(flushable)
            self._schedule()

    def before_batch(self, callback: Callable[[], object]) -> None:
        """Call back after the actors' turns and before the callbacks of `before_flush`, of which
        one begins a batch of the log: what is written now is in this batch.
        """
        self._before_batch.append(callback)
        self._schedule()

    def before_flush(self, callback: Callable[[], object]) -> None:
        """Call back after the actors' turns and before output is written.

        Runs that are on disk by then are confirmed in the same round.
        """
        self._before.append(callback)
        self._schedule()

    def after_round(self, callback: Callable[[], object]) -> None:
        """Call back when no actor is awake, or after `AFTER_ROUNDS_MAX` rounds.

        Callbacks run in the order of their calls here, as long as there is work left; the rest
        follows in the next rounds.
        """
        if not self._after:
            self._rounds_waited = 0
        self._after.append(callback)
        self._schedule()

    def call_soon(self, work: Callable[[], object]) -> None:
        """Run a piece of work in the next turn of the loop."""
        self._loop.call_soon(self.watch.run, work)

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call back after this much real time, even while the broker's clock stands still."""
        return self._loop.call_later(delay_ms / 1000, callback)

    def when_overdue(self, at: float | None, callback: Callable[[], object]) -> None:
        """Call back before the first read after a time is handled. at: by `perf_counter`; None for
        never.
        """
        self.overdue_at = NEVER if at is None else at
        self._overdue = callback

    def hold(self) -> None:
        """Handle no input until `release`: it waits, and sockets are not read."""
        self.is_held = True
        self.work_left = 0

    def release(self) -> None:
        """Handle the waiting input, and new input."""
        self.is_held = False
        self.work_left = WORK_MAX
        self._schedule()

    def _look_at_clock(self) -> float:
        """Note the broker's time. Returns the time of `perf_counter`, which is the same clock.

        Otherwise a single message would read clocks seven times, which takes half a microsecond.
        """
        now = self._clock_s()
        self.now_ms = int(now * 1000) if self._clock_ms is None else self._clock_ms()
        return now

    def begin_read(self) -> float:
        """Start to handle bytes of a socket, until `end_read`. Returns the time, for that call."""
        self._is_reading = True
        now = self._look_at_clock()
        if now > self.overdue_at and self._overdue is not None:
            self.overdue_at = NEVER
            self._overdue()
        return now

    def end_read(self, started: float, size: int) -> float:
        """The bytes are handled. started: when that began. size: in bytes. Returns the seconds.

        The woken actors take turns in a round, which follows at once after a single small read.
        """
        self._is_reading = False
        ended = 0.0
        is_alone = started - self._last_read_at > ALONE_SECONDS
        self._last_read_at = started
        if self._is_wanted:
            self._is_wanted = False
            is_small = size <= ALONE_BYTES_MAX and WORK_MAX - self.work_left <= ALONE_WORK_MAX
            if is_alone and is_small and not self._is_scheduled:
                ended = self._do_round(started)
            else:
                self._schedule()
        return (ended or self._clock_s()) - started

    def others_publish_little(self, reader: int) -> bool:
        """Whether a publisher other than this reader has recently published little at a time."""
        if self.small_publisher == reader:
            return False
        return self.rounds - self.small_publish_at < SMALL_PUBLISHER_ROUNDS

    def _schedule(self) -> None:
        if self._is_reading:
            self._is_wanted = True
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_round)

    def _run_round(self) -> None:
        self._do_round(self._look_at_clock())

    def _do_round(self, now: float) -> float:
        """A round. now: the time. Returns the time when it has ended."""
        self.rounds += 1
        actors, self._actors = self._actors, []
        self._is_scheduled = True
        deadline = now + ROUND_SECONDS_MAX
        for place, actor in enumerate(actors):
            actor.is_awake = False
            started = now
            self.work_left = WORK_MAX
            try:
                actor.take_turn()
            except Exception:
                logger.exception("%r failed in its turn", actor)
            now = self._clock_s()
            if now > deadline:
                self._actors = actors[place + 1 :] + self._actors
                self.watch.note(now - started, actor)
                break
        self._end_round()
        ended = self._clock_s()
        if ended - now > NOTED_SECONDS:
            what = "the end of a round: the log's batch, output, reading again"
            self.watch.note(ended - now, what)
        return ended

    def _end_round(self) -> None:
        if self._before_batch:
            before_batch, self._before_batch = self._before_batch, []
            self._call(before_batch)
        if self._before:
            before, self._before = self._before, []
            self._call(before)
        self._flush()
        is_after = bool(self._after) and not self.is_held
        self.work_left = 0 if self.is_held else WORK_MAX
        if is_after:
            self._rounds_waited += 1
            if not self._actors or self._rounds_waited >= AFTER_ROUNDS_MAX:
                self._call_after_round()
        is_after = bool(self._after) and not self.is_held
        self._is_scheduled = bool(
            self._actors or self._dirty or is_after or self._before or self._before_batch
        )
        if self._is_scheduled:
            self._loop.call_soon(self._run_round)

    def _call_after_round(self) -> None:
        """Call the waiting callbacks, once each, while there is work left."""
        after = self._after
        for _ in range(len(after)):
            if self.work_left <= 0:
                return
            self._call([after.popleft()])

    @staticmethod
    def _call(callbacks: list[Callable[[], object]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("%r failed after a round", callback)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for flushable in dirty:
            flushable.is_dirty = False
            try:
                flushable.flush()
            except Exception:
                logger.exception("%r could not be flushed", flushable)
