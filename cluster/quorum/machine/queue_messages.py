"""The messages of a quorum queue, and the rules for them: the lower half of the machine.

    published -> ready -> held by a consumer -> settled, or dead
                  ^  ^            |
                  |  delayed <----+ returned
                  +---------------+

In a queue of a delayed message exchange, a published message is delayed, and then a dead letter.

Each message is in one of these places, or is a dead letter that is kept (QM4). Depending on the
options, a dead message is dropped, published as a dead letter, or kept until its letter is
confirmed.

A full queue drops the messages that would be delivered next, or refuses publishes. If it refuses,
it takes one message more than its limit, and then none until a fifth of the limit is free.
"""

from typing import Final

from leveret.broker.queues.contract.retry_delay import delay_ms
from leveret.broker.queues.deduplication.identifiers import KnownIdentifiers
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    RUN_FIELDS,
    DeadLetterStrategy,
    DelayedRetry,
    EndDelays,
    Modify,
    Options,
    TakenPlace,
    add_interval,
)
from leveret.cluster.quorum.machine.consumers import Consumers, ConsumerState
from leveret.cluster.quorum.machine.dead_letters import RetainedLetters
from leveret.cluster.quorum.machine.delayed_messages import ALL, DelayedRuns
from leveret.cluster.quorum.machine.effects import (
    Delayed,
    DelaysEnded,
    Deliver,
    Dropped,
    Effects,
    LettersDropped,
    PublishDeadLetters,
    Reason,
    RefusedDuplicates,
)
from leveret.cluster.quorum.machine.held_runs import in_order_of_delivery
from leveret.cluster.quorum.machine.own_times import limited
from leveret.cluster.quorum.machine.ready_messages import ReadyMessages
from leveret.cluster.quorum.machine.runs import NEVER, Run

ROOM_AGAIN: Final = 0.8
"""A queue must shrink to this share of its limit before it takes messages again."""
EXPIRED_TOGETHER_MAX = 4000
"""About how many runs expire by one entry, so that applying it is no long turn."""
RELEASED_MAX = 4000
"""About how many messages of a delayed message exchange are on their way to their queues: others
that are due stay among the delayed ones, where a million cost little."""
TAKEN_AT_ONCE_MS: Final = 1
"""AMQP's meaning of a time to live of 0: the message expires unless a consumer takes it at once."""


class QueueMessages:
    """A queue's messages. position: of the next one. is_refusing: publishes are refused.

    held_count, held_bytes: of the messages that consumers hold. taken, delivered, delivered_no_ack,
    got, got_no_ack, got_empty, redelivered, acked, duplicates, expired_on_time: what this member
    has counted since it started, for statistics. They are not part of the state, and neither is
    expired_ms: when all messages that had expired were dropped last, wherever they were.
    identifiers: those that are known, by the positions of messages; None if duplicates are taken.
    """

    __slots__ = (
        "_is_for_now", "acked", "consumers", "delayed", "delivered", "delivered_no_ack",
        "duplicates", "expired_ms", "expired_on_time", "got", "got_empty", "got_no_ack",
        "held_bytes", "held_count", "identifiers", "is_refusing", "letters", "now_ms", "options",
        "position", "ready", "redelivered", "taken",
    )  # fmt: skip

    def __init__(self, options: Options) -> None:
        self.options = options
        self.ready = ReadyMessages(options.priorities)
        self.ready.is_successor = options.is_successor
        self.delayed = DelayedRuns()
        self.letters = RetainedLetters()
        self.consumers = Consumers(options.is_single_active, options.elects_by_priority)
        self.now_ms = 0
        self.position = 1
        self.is_refusing = False
        self._is_for_now = False
        self.held_count = 0
        self.held_bytes = 0
        self.taken = self.delivered = self.delivered_no_ack = self.redelivered = 0
        self.duplicates = self.expired_on_time = self.expired_ms = 0
        self.identifiers = known_with(options, None)
        self.got = self.got_no_ack = self.got_empty = self.acked = 0

    def configure(self, options: Options, effects: Effects | None) -> None:
        """Change the options."""
        self.options = options
        self.identifiers = known_with(options, self.identifiers)
        self.consumers.is_single_active = options.is_single_active
        self.consumers.elects_by_priority = options.elects_by_priority
        self.ready.set_priorities(options.priorities)
        self.ready.is_successor = options.is_successor
        if options.dead_letters != DeadLetterStrategy.AT_LEAST_ONCE:
            dropped = self.letters.clear()
            if dropped and effects is not None:
                effects.add(LettersDropped(dropped))

    # Publishing

    def publish(
        self, index: int, fields: list[int], effects: Effects | None,
        times: dict[int, bytes] | None = None,
    ) -> list[int]:  # fmt: skip
        """Take the runs of a publish. Returns the refused places as intervals. times: if any."""
        options = self.options
        refused: list[int] = []
        if options.is_delaying:
            count = self.delayed.publish(self.position, index, fields, times, self.now_ms)
            self.position += count
            self.taken += count
            return refused
        place = 0
        first = self.position
        for at in range(0, len(fields), RUN_FIELDS):
            count = fields[at]
            run = Run(
                self.position, count, index, place, fields[at + 1], fields[at + 3],
                self._expiry_ms(fields[at + 2] - 1),
            )  # fmt: skip
            if times is not None and (own := times.get(at // RUN_FIELDS)) is not None:
                limit_ms = options.message_ttl_ms
                run.times = limited(own, place, self.now_ms, run.expires_at_ms, limit_ms)
            if options.rejects_publishes:
                taken = self._take_if_room(run, effects)
                if taken < count:
                    add_interval(refused, place + taken, place + count - 1)
            else:
                self.position += count
                self.ready.append(run)
            place += count
        self.taken += self.position - first
        return refused

    def publish_once(
        self, index: int, fields: list[int], keys: list[bytes], effects: Effects | None
    ) -> list[int]:
        """As `publish`, without the messages whose keys are known. keys: see `EnqueueOnce`."""
        identifiers = self.identifiers
        if identifiers is None:
            return self.publish(index, fields, effects)
        refused: list[int] = []
        duplicates: list[Run] = []
        place = 0
        first = self.position
        for at in range(0, len(fields), RUN_FIELDS):
            for _ in range(fields[at]):
                key = keys[place]
                run = Run(self.position, 1, index, place, fields[at + 1], fields[at + 3])
                if key and identifiers.has(key, self.now_ms):
                    duplicates.append(run)
                elif not self._take_one(run, fields[at + 2] - 1, key, identifiers, effects):
                    add_interval(refused, place, place)
                place += 1
        self.taken += self.position - first
        if duplicates:
            self.duplicates += len(duplicates)
            if effects is not None:
                effects.add(RefusedDuplicates(duplicates))
        return refused

    def _take_one(
        self,
        run: Run,
        ttl_ms: int,
        key: bytes,
        identifiers: KnownIdentifiers,
        effects: Effects | None,
    ) -> bool:
        """Take a message, unless the queue is full and refuses it. ttl_ms: see `_expiry_ms`."""
        run.expires_at_ms = self._expiry_ms(ttl_ms)
        if self.options.rejects_publishes and self._room(run.size) == 0:
            return False
        if key:
            # Before the message can leave the queue again.
            identifiers.add_present(key, self.now_ms, run.position)
        self.position += 1
        self.ready.append(run)
        if self.options.rejects_publishes:
            self.deliver(effects)
        return True

    def _have_left(self, runs: list[Run]) -> None:
        """Messages have left the queue."""
        if self.identifiers is not None:
            for run in runs:
                self.identifiers.left_positions(run.position, run.last, self.now_ms)

    def take_over(self, index: int, fields: list[int], returns: int, place: TakenPlace) -> None:
        """Take the runs of a `TakeOver`."""
        first = 0
        for at in range(0, len(fields), RUN_FIELDS):
            run = Run(
                self.position, fields[at], index, first, fields[at + 1], fields[at + 3],
                self._expiry_ms(fields[at + 2] - 1), returns, returns,
            )  # fmt: skip
            self.position += run.count
            first += run.count
            if place == TakenPlace.END:
                self.ready.append(run)
            elif place == TakenPlace.FRONT:
                self.ready.append_returned(run)
            else:
                self.letters.add(Reason(place - TakenPlace.EXPIRED), [run])

    def _expiry_ms(self, ttl_ms: int) -> int:
        limit_ms = self.options.message_ttl_ms
        if ttl_ms == NO_LIMIT or (limit_ms != NO_LIMIT and limit_ms < ttl_ms):
            ttl_ms = limit_ms
        if ttl_ms == NO_LIMIT:
            return NEVER
        if ttl_ms < TAKEN_AT_ONCE_MS:
            self._is_for_now = True
            ttl_ms = TAKEN_AT_ONCE_MS
        return self.now_ms + ttl_ms

    def _take_if_room(self, run: Run, effects: Effects | None) -> int:
        """Take as many messages as there is room for. Returns how many these are."""
        taken = 0
        while taken < run.count:
            count = min(self._room(run.size), run.count - taken)
            if count == 0:
                break
            part = run.part(taken, count)
            part.position = self.position
            self.position += count
            self.ready.append(part)
            taken += count
            self.deliver(effects)
        return taken

    def _room(self, size: int) -> int:
        """How many messages of this size the queue takes before it is full."""
        if self.is_refusing:
            return 0
        options, room = self.options, 1 << 32
        if options.max_length != NO_LIMIT:
            room = options.max_length + 1 - self._limited_count()
        if options.max_length_bytes != NO_LIMIT and size:
            free = options.max_length_bytes - self._limited_bytes()
            room = min(room, free // size + 1)
        return max(room, 1)

    # Limits

    def _limited_count(self) -> int:
        """How many messages count for the limit: all except those that consumers hold."""
        return self.ready.count + self.delayed.count + self.letters.count

    def _limited_bytes(self) -> int:
        return self.ready.bytes + self.delayed.bytes + self.letters.bytes

    def _excess(self) -> bool:
        options = self.options
        return (options.max_length != NO_LIMIT and self._limited_count() > options.max_length) or (
            options.max_length_bytes != NO_LIMIT
            and self._limited_bytes() > options.max_length_bytes
        )

    def _enforce_limits(self, effects: Effects | None) -> None:
        options = self.options
        if options.max_length == NO_LIMIT and options.max_length_bytes == NO_LIMIT:
            self.is_refusing = False
        elif options.rejects_publishes:
            if self._excess():
                self.is_refusing = True
            elif self.is_refusing:
                self.is_refusing = not (
                    _has_room(options.max_length, self._limited_count())
                    and _has_room(options.max_length_bytes, self._limited_bytes())
                )
        else:
            self.is_refusing = False
            if self._excess():
                self._drop_heads(effects)

    def _drop_heads(self, effects: Effects | None) -> None:
        options = self.options
        dropped: list[Run] = []
        while self.ready.count and self._excess():
            count = 1
            if options.max_length != NO_LIMIT:
                count = max(1, self._limited_count() - options.max_length)
            dropped.append(self.ready.take(count))
        if dropped:
            self.die(dropped, Reason.MAXLEN, effects)

    # Delivering

    def pass_time(self, now_ms: int, effects: Effects | None) -> None:
        """Set the time to that of an entry. Messages were delayed until now."""
        self.now_ms = max(self.now_ms, now_ms)
        self._is_for_now = False
        if self.delayed.count:
            if self.options.is_delaying:
                self._release_due(effects)
            else:
                due = self.delayed.take_ready(self.now_ms)
                self._make_ready(self._unexpired(due, effects))

    def _unexpired(self, runs: list[Run], effects: Effects | None) -> list[Run]:
        """Those of delayed messages whose delay has ended before they expired. The others die."""
        if not self.options.delayed_expire:
            return runs
        expired: list[Run] = []
        left: list[Run] = []
        for run in runs:
            left += run.without_expired(self.now_ms, expired)
        if expired:
            self.die(expired, Reason.EXPIRED, effects)
        return left

    def _release_due(self, effects: Effects | None) -> None:
        """Messages whose delay is over leave a queue that only delays them."""
        room = RELEASED_MAX - self.letters.count
        if room > 0:
            due = self.delayed.take_ready(self.now_ms, room)
            if due:
                self.die(due, Reason.EXPIRED, effects)

    def letters_done(self, positions: list[int], effects: Effects | None) -> None:
        """Letters were confirmed. Others that wait for room are released."""
        self.letters.done(positions)
        if self.options.is_delaying:
            self._release_due(effects)

    def next_delayed_ms(self) -> int:
        """When time makes a delayed message ready; 0 if it does not."""
        is_full = self.options.is_delaying and self.letters.count >= RELEASED_MAX
        return 0 if is_full else self.delayed.next_ms()

    def _make_ready(self, delayed: list[Run]) -> None:
        for run in delayed:
            ready = run.part(0, run.count)
            ready.time_ms = 0
            self.ready.append_returned(ready)

    def end_delays(self, command: EndDelays, effects: Effects | None) -> None:
        """End the delays of messages, or drop these."""
        runs = self.delayed.take(command.positions, command.first_ms, command.last_ms or ALL)
        if effects is not None:
            effects.add(DelaysEnded(sum([run.count for run in runs])))
        if command.is_discarded:
            self._have_left(runs)
        elif self.options.is_delaying:
            self._release_now(runs, effects)
        else:
            self._make_ready(runs)

    def _release_now(self, runs: list[Run], effects: Effects | None) -> None:
        """Release messages before their time; those without room are due from now on."""
        room = max(0, RELEASED_MAX - self.letters.count)
        for run in runs[room:]:
            due = run.part(0, run.count)
            due.time_ms = self.now_ms
            self.delayed.add(due)
        if runs[:room]:
            self.die(runs[:room], Reason.EXPIRED, effects)

    def deliver(self, effects: Effects | None) -> None:
        """Give ready messages to consumers that may take them, and enforce the limits."""
        ready, consumers, now_ms = self.ready, self.consumers, self.now_ms
        last: Deliver | None = None
        given: dict[ConsumerState, Deliver] = {}
        if ready.expiring:
            self._drop_expired(effects)
        while ready.count:
            consumer = consumers.next
            if consumer is None:
                break
            room = consumer.credit - consumer.held.count
            run = ready.take(room if consumers.next_is_alone else 1, now_ms)
            self._hand_over(run, consumer)
            consumers.took(consumer)
            if effects is not None:
                if (
                    last is None
                    or last.consumer != consumer.number
                    or (last.sender != consumer.sender)
                ):
                    last = given.get(consumer)
                    if last is None:
                        last = given[consumer] = Deliver(consumer.sender, consumer.number, [])
                        effects.add(last)
                last.runs.append(run)
            if ready.expiring:
                self._drop_expired(effects)
        if self._is_for_now:
            self._drop_expired(effects, TAKEN_AT_ONCE_MS)
        self._enforce_limits(effects)

    def _hand_over(self, run: Run, consumer: ConsumerState) -> None:
        run.delivery = consumer.delivered + 1
        run.time_ms = self.now_ms
        consumer.delivered += run.count
        consumer.held.add(run)
        self.held_count += run.count
        self.held_bytes += run.count * run.size
        self._count_given(run, consumer)
        assert consumer.held.count <= consumer.credit, "QM6: a consumer holds more than its credit"

    def _count_given(self, run: Run, consumer: ConsumerState) -> None:
        if run.returns:
            self.redelivered += run.count
        if consumer.is_once:
            if consumer.no_ack:
                self.got_no_ack += run.count
            else:
                self.got += run.count
        elif consumer.no_ack:
            self.delivered_no_ack += run.count
        else:
            self.delivered += run.count

    def give_one(self, consumer: ConsumerState, effects: Effects | None) -> bool:
        """Give the next message to a get. Returns whether there was one."""
        if self.ready.expiring:
            self._drop_expired(effects)
        if not self.ready.count:
            self.got_empty += 1
            return False
        run = self.ready.take(1)
        self._hand_over(run, consumer)
        if effects is not None:
            effects.add(Deliver(consumer.sender, consumer.number, [run]))
        return True

    def _drop_expired(self, effects: Effects | None, early_ms: int = 0) -> None:
        expired = self.ready.take_expired(self.now_ms + early_ms)
        if expired:
            self.die(expired, Reason.EXPIRED, effects)

    def drop_all_expired(self, effects: Effects | None) -> None:
        """Drop or dead-letter messages whose time is over, wherever they are in the queue.

        Of very many, some are left for the next entry.
        """
        expired = self.ready.take_all_expired(self.now_ms, EXPIRED_TOGETHER_MAX)
        self.expired_ms = 0 if len(expired) >= EXPIRED_TOGETHER_MAX else self.now_ms
        if expired:
            for run in expired:
                self.expired_on_time += run.count
            self.die(expired, Reason.EXPIRED, effects)

    # Settling

    def take_held(self, consumer: ConsumerState, positions: list[int]) -> list[Run]:
        """Take those messages at these positions that a consumer holds, in delivery order."""
        taken = consumer.held.take(positions[0], positions[1])
        if len(positions) > 2:
            for at in range(2, len(positions), 2):
                taken += consumer.held.take(positions[at], positions[at + 1])
        self._released(taken)
        return taken

    def take_all_held(self, consumer: ConsumerState) -> list[Run]:
        """Take all messages that a consumer holds."""
        taken = consumer.held.take_all()
        self._released(taken)
        return taken

    def _released(self, runs: list[Run]) -> None:
        for run in runs:
            self.held_count -= run.count
            self.held_bytes -= run.count * run.size

    def settle(self, runs: list[Run], consumer: ConsumerState) -> None:
        """Count messages that a consumer has settled."""
        self._have_left(runs)
        if not consumer.no_ack:
            for run in runs:
                self.acked += run.count

    def modify(self, runs: list[Run], command: Modify, effects: Effects | None) -> None:
        """Add annotations to messages that a consumer held, and take them back or let them die."""
        annotated: list[Run] = []
        for run in runs:
            other = run.part(0, run.count)
            known = run.annotations
            other.annotations = (
                command.annotations if known is None else {**known, **command.annotations}
            )
            annotated.append(other)
        if command.is_rejected and annotated:
            self.discard(annotated, effects)
        else:
            self.return_runs(annotated, command.is_failed, effects, command.ready_ms)

    def return_runs(
        self, runs: list[Run], is_failed: bool, effects: Effects | None, ready_ms: int = 0
    ) -> None:
        """Take back messages that a consumer held. ready_ms: see `Modify`."""
        options = self.options
        counts = is_failed or options.counts_returns
        died: list[Run] = []
        delayed: list[Run] = []
        for run in in_order_of_delivery(runs):
            back = Run(
                run.position, run.count, run.index, run.place, run.size, run.priority,
                run.expires_at_ms, run.returns + 1, run.delivery_count + counts,
                annotations=run.annotations, times=run.times,
            )  # fmt: skip
            if options.delivery_limit != NO_LIMIT and back.delivery_count > options.delivery_limit:
                died.append(back)
            elif ready_ms > self.now_ms:
                back.time_ms = ready_ms
                delayed.append(back)
            elif self._is_delayed(is_failed):
                back.time_ms = self.now_ms + delay_ms(
                    back.delivery_count, options.delayed_retry_min_ms,
                    options.delayed_retry_max_ms, options.delayed_retry_multiplier,
                )  # fmt: skip
                delayed.append(back)
            elif options.returns_to_end and not is_failed:
                self.ready.append(back)
            else:
                self.ready.append_returned(back)
        if delayed:
            self._delay(delayed, effects)
        if died:
            self.die(died, Reason.DELIVERY_LIMIT, effects)

    def _delay(self, runs: list[Run], effects: Effects | None) -> None:
        """Have messages wait until their times, or until they expire."""
        delayed: list[Run] = []
        for run in runs:
            if self.options.delayed_expire and NEVER < run.expires_at_ms < run.time_ms:
                delayed += run.delayed_until_expiry()
            else:
                delayed.append(run)
        for run in delayed:
            self.delayed.add(run)
        if effects is not None:
            effects.add(Delayed(delayed))

    def return_unseen(self, runs: list[Run]) -> None:
        """Take back messages that were not handed to a client: nothing is counted or delayed."""
        for run in in_order_of_delivery(runs):
            back = run.part(0, run.count)
            back.delivery = back.time_ms = 0
            self.ready.append_returned(back)

    def discard(self, runs: list[Run], effects: Effects | None) -> None:
        """Let messages die that a consumer has rejected."""
        self.die(in_order_of_delivery(runs), Reason.REJECTED, effects)

    def _is_delayed(self, is_failed: bool) -> bool:
        kind = self.options.delayed_retry
        if kind == DelayedRetry.DISABLED:
            return False
        wanted = DelayedRetry.FAILED if is_failed else DelayedRetry.RETURNED
        return kind in {DelayedRetry.ALL, wanted}

    def die(self, runs: list[Run], reason: Reason, effects: Effects | None) -> None:
        """Drop or dead-letter messages, or keep them as dead letters."""
        self._have_left(runs)
        strategy = self.options.dead_letters
        if strategy == DeadLetterStrategy.DROP:
            if effects is not None:
                effects.add(Dropped(reason, runs))
            return
        are_kept = strategy == DeadLetterStrategy.AT_LEAST_ONCE
        if are_kept:
            runs = self.letters.add(reason, runs)
        if effects is not None:
            effects.add(PublishDeadLetters(reason, runs, are_kept))

    def purge(self) -> int:
        """Drop messages that no consumer holds, except dead letters. Returns their number."""
        if self.identifiers is not None:
            self.identifiers.clear()
        return self.ready.clear() + self.delayed.clear()


def known_with(options: Options, present: KnownIdentifiers | None) -> KnownIdentifiers | None:
    """The identifiers that a queue with these options knows. present: those so far."""
    if not options.cache_size:
        return None
    known = KnownIdentifiers() if present is None else present
    known.configure(options.cache_size, options.cache_ttl_ms)
    return known


def _has_room(limit: int, number: int) -> bool:
    return limit == NO_LIMIT or number <= int(limit * ROOM_AGAIN)
