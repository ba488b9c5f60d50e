"""The quorum queue as a state machine: the changes and the effects of each entry of its log.

All members apply the same entries in the same order, and are in the same state after each one. Only
the leader collects effects, so these cost the other members nothing. A new leader has the complete
state: which consumer holds which messages, and what each client still has to be told.

Invariants, beside those of the parts (docs/design/quorum-queues.md has all of them):

QM4  Each message is in one place: ready, delayed, held by one consumer, or kept as a dead letter.
QM5  The state depends on the entries only. Its time never goes backwards.
QM6  A consumer holds at most as many messages as its credit.
QM7  After each entry, no message is ready while a consumer may take it.
QM8  Deliveries to a consumer are numbered 1, 2, 3 and so on.
"""

from collections.abc import Mapping
from typing import Final

from leveret.cluster.quorum.machine.commands import (
    DEFAULT_OPTIONS,
    NO_LIMIT,
    Cancel,
    Checkout,
    ClientCommand,
    Command,
    Configure,
    Discard,
    EndDelays,
    Enqueue,
    EnqueueOnce,
    EnqueueTimed,
    Expire,
    Get,
    Join,
    Leave,
    LettersDone,
    Modify,
    NodeConnected,
    NodeDisconnected,
    NodeDown,
    Options,
    Purge,
    Return,
    Settle,
    TakeOver,
    Tick,
    decode_entry,
)
from leveret.cluster.quorum.machine.consumers import ConsumerState
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Applied,
    Deliver,
    Effect,
    Effects,
    Expired,
    Outcome,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
)
from leveret.cluster.quorum.machine.live_entries import intervals_of_indexes, joined
from leveret.cluster.quorum.machine.queue_messages import QueueMessages
from leveret.cluster.quorum.machine.senders import Sender, Senders

CHECK_INTERVAL_MS: Final = 60_000
"""How often consumers are checked for messages that they have held for too long, as in RabbitMQ."""
EXPIRY_INTERVAL_MS: Final = 100
"""The shortest time between two entries by which messages expire wherever they are."""
EXPIRY_INTERVAL_OF_BLOCK_MS: Final = 5
"""So much longer for each block of messages: ten times the time that takes."""
MESSAGES_OF_INTERVAL_MS: Final = 10_000
"""How many messages make it a millisecond longer: their times are looked at."""
EXPIRED_AGAIN_MS: Final = 1_000
"""How long to wait for the deletion of an expired queue before it is requested again."""


class QuorumMachine:
    """The state of a quorum queue. applied: the index of the last entry.

    used_ms: when a consumer or a get last used the queue (x-expires). checked_ms: when consumers
    were last checked for messages held for too long. timeout_ms: the shortest time that one of them
    may hold a message; NO_LIMIT if there is none.
    """

    __slots__ = ("applied", "checked_ms", "messages", "senders", "timeout_ms", "used_ms")

    def __init__(self, options: Options = DEFAULT_OPTIONS) -> None:
        """options: of the declaration of the queue, the same on all members."""
        self.applied = 0
        self.messages = QueueMessages(options)
        self.senders = Senders()
        self.used_ms = 0
        self.checked_ms = 0
        self.timeout_ms = NO_LIMIT

    def apply(self, index: int, entry: bytes, effects: Effects | None = None) -> None:
        """Apply the entry at an index. effects: collects them, if this member leads.

        Raises CommandError if the entry is damaged or of another version.
        """
        now_ms, command, _ = decode_entry(entry)
        assert index > self.applied, "QM5: entries are applied in order"
        self.applied = index
        self.messages.pass_time(now_ms, effects)
        if not self.used_ms:
            self.used_ms = self.messages.now_ms
        if isinstance(command, ClientCommand):
            if not self._apply_of_client(index, command, effects):
                return
        else:
            self._apply_of_leader(index, command, effects)
        self.messages.deliver(effects)

    # Commands of clients

    def _apply_of_client(self, index: int, command: ClientCommand, effects: Effects | None) -> bool:
        """Apply a command if it is the next one of its sender. Returns whether it was."""
        number = command.number
        sender = self.senders.known.get(command.sender)
        if sender is None or sender.has_ended:
            if sender is None and isinstance(command, Join):
                sender = self._join(command, effects)
            if sender is None or sender.has_ended:
                if effects is not None:
                    effects.add(UnknownSender(command.sender))
                return False
        elif number != sender.applied + 1:
            return False
        sender.applied = number
        if command.seen:
            sender.saw(command.seen)
        if isinstance(command, Enqueue):
            if isinstance(command, EnqueueOnce):
                refused = self.messages.publish_once(index, command.runs, command.keys, effects)
            elif isinstance(command, EnqueueTimed):
                refused = self.messages.publish(index, command.runs, effects, command.times)
            else:
                refused = self.messages.publish(index, command.runs, effects)
            if refused:
                self._give_result(sender, Outcome.REFUSED, 0, tuple(refused), effects)
        elif isinstance(command, Settle | Return | Discard | Modify):
            self._settle(sender, command, effects)
        else:
            self._apply_seldom(sender, command, effects)
        if effects is not None:
            effects.applied(command.sender, number)
        return True

    def _join(self, command: Join, effects: Effects | None) -> Sender | None:
        """Add a sender, and end earlier ones of its node; None if it is an earlier one itself."""
        senders = self.senders
        if not senders.may_join(command.sender, command.node):
            return None
        for one in senders.of_node(command.node):
            self._end_sender(one, effects)
        return senders.join(command.sender, command.node, command.incarnation)

    def _apply_seldom(
        self, sender: Sender, command: ClientCommand, effects: Effects | None
    ) -> None:
        if isinstance(command, Checkout):
            self._subscribe(sender, command, effects)
        elif isinstance(command, Cancel):
            self._cancel(sender, command, effects)
        elif isinstance(command, Get):
            self._get(sender, command, effects)
        elif isinstance(command, Purge):
            self._give_result(sender, Outcome.PURGED, self.messages.purge(), (), effects)
        elif isinstance(command, Leave):
            self._end_sender(sender, effects)
            self.senders.end(sender)

    def _give_result(
        self, sender: Sender, outcome: Outcome, value: int, refused: tuple[int, ...],
        effects: Effects | None,
    ) -> None:  # fmt: skip
        result = Result(sender.sender, sender.applied, outcome, value, refused)
        sender.results.append(result)
        if effects is not None:
            effects.add(result)

    def _settle(
        self, sender: Sender, command: Settle | Return | Discard | Modify,
        effects: Effects | None,
    ) -> None:  # fmt: skip
        consumer = sender.consumers.get(command.consumer)
        if consumer is None:
            return
        messages = self.messages
        runs = messages.take_held(consumer, command.positions)
        if isinstance(command, Return):
            if command.is_unseen:
                messages.return_unseen(runs)
            else:
                messages.return_runs(runs, command.is_failed, effects)
        elif isinstance(command, Settle):
            messages.settle(runs, consumer)
        elif isinstance(command, Modify):
            messages.modify(runs, command, effects)
        elif runs:
            messages.discard(runs, effects)
        may_return = bool(consumer.timed_out)
        if may_return:
            consumer.named(command.positions)
        self._has_released(sender, consumer, may_return, effects)

    def _has_released(
        self, sender: Sender, consumer: ConsumerState, has_changed: bool, effects: Effects | None
    ) -> None:
        """A consumer holds fewer messages. has_changed: the active consumer may change."""
        consumers = self.messages.consumers
        is_ending = consumer.is_cancelled or consumer.is_once
        if is_ending and not consumer.held.count and not consumer.timed_out:
            self._remove(sender, consumer)
        else:
            consumers.update(consumer)
        if has_changed or (consumers.is_quiescing and consumer is consumers.active):
            self._elect(effects)

    # Consumers

    def _subscribe(self, sender: Sender, command: Checkout, effects: Effects | None) -> None:
        consumer = ConsumerState(
            sender.sender, command.number, command.tag, command.credit, command.priority,
            command.no_ack, command.timeout_ms, command.details,
        )  # fmt: skip
        consumer.is_away = sender.is_away
        sender.consumers[command.number] = consumer
        self.messages.consumers.add(consumer)
        self.used_ms = self.messages.now_ms
        self.find_timeout()
        self._elect(effects)

    def _cancel(self, sender: Sender, command: Cancel, effects: Effects | None) -> None:
        consumer = sender.consumers.get(command.consumer)
        if consumer is None:
            return
        consumer.is_cancelled = True
        if command.returns:
            consumer.timed_out = []
            runs = self.messages.take_all_held(consumer)
            self.messages.return_runs(runs, True, effects)
        self._has_released(sender, consumer, True, effects)

    def _remove(self, sender: Sender, consumer: ConsumerState) -> None:
        del sender.consumers[consumer.number]
        self.messages.consumers.remove(consumer)
        self.used_ms = self.messages.now_ms
        self.find_timeout()

    def _get(self, sender: Sender, command: Get, effects: Effects | None) -> None:
        messages = self.messages
        if messages.options.is_single_active:
            self._give_result(sender, Outcome.SINGLE_ACTIVE, 0, (), effects)
            return
        self.used_ms = messages.now_ms
        consumer = ConsumerState(
            sender.sender, command.number, "", 1, 0, command.no_ack, NO_LIMIT, b"", is_once=True
        )
        if not messages.give_one(consumer, effects):
            self._give_result(sender, Outcome.EMPTY, 0, (), effects)
            return
        consumer.is_away = sender.is_away
        sender.consumers[command.number] = consumer
        self.find_timeout()
        self._give_result(sender, Outcome.GOT, messages.ready.count, (), effects)

    def _elect(self, effects: Effects | None) -> None:
        consumers = self.messages.consumers
        before = consumers.active
        if not consumers.elect() or effects is None:
            return
        if before is not None:
            effects.add(ActiveChanged(before.sender, before.number, False))
        active = consumers.active
        if active is not None:
            effects.add(ActiveChanged(active.sender, active.number, True))

    # Nodes

    def _end_sender(self, sender: Sender, effects: Effects | None) -> None:
        for consumer in list(sender.consumers.values()):
            runs = self.messages.take_all_held(consumer)
            self.messages.return_runs(runs, True, effects)
            self._remove(sender, consumer)
        self._elect(effects)

    def _end_node(self, command: NodeDown, effects: Effects | None) -> None:
        for sender in self.senders.of_node(command.node):
            if sender.incarnation <= command.incarnation and not sender.has_ended:
                self._end_sender(sender, effects)
                sender.has_ended = True
                if effects is not None:
                    effects.add(UnknownSender(sender.sender))

    def _set_away(self, node: str, is_away: bool, effects: Effects | None) -> None:
        for sender in self.senders.of_node(node):
            sender.is_away = is_away
            for consumer in sender.consumers.values():
                consumer.is_away = is_away
                self.messages.consumers.update(consumer)
        self._elect(effects)

    # Commands of the leader

    def _apply_of_leader(self, index: int, command: Command, effects: Effects | None) -> None:
        if isinstance(command, Tick):
            if isinstance(command, Expire):
                self.messages.drop_all_expired(effects)
            self._check_timeouts(effects)
            self._check_use(effects)
        elif isinstance(command, Configure):
            self._configure(command, effects)
        elif isinstance(command, NodeDown):
            self._end_node(command, effects)
        elif isinstance(command, NodeDisconnected | NodeConnected):
            self._set_away(command.node, isinstance(command, NodeDisconnected), effects)
        elif isinstance(command, EndDelays):
            self.messages.end_delays(command, effects)
        elif isinstance(command, LettersDone):
            self.messages.letters_done(command.positions, effects)
        elif isinstance(command, TakeOver):
            self.messages.take_over(index, command.runs, command.returns, command.place)

    def _configure(self, command: Configure, effects: Effects | None) -> None:
        messages = self.messages
        messages.configure(command.options, effects)
        for consumer in messages.consumers.subscribed:
            messages.consumers.update(consumer)
        self.find_timeout()
        self._elect(effects)

    # Time

    def find_timeout(self) -> None:
        """Find the shortest timeout of all consumers."""
        self.timeout_ms = NO_LIMIT
        for sender in self.senders.known.values():
            for consumer in sender.consumers.values():
                timeout_ms = self._timeout_of(consumer)
                if timeout_ms != NO_LIMIT and not 0 <= self.timeout_ms <= timeout_ms:
                    self.timeout_ms = timeout_ms

    def _timeout_of(self, consumer: ConsumerState) -> int:
        if consumer.no_ack:
            return NO_LIMIT
        if consumer.timeout_ms != NO_LIMIT:
            return consumer.timeout_ms
        return self.messages.options.consumer_timeout_ms

    def _check_timeouts(self, effects: Effects | None) -> None:
        """Return messages that consumers have held for too long."""
        now_ms = self.checked_ms = self.messages.now_ms
        if self.timeout_ms == NO_LIMIT:
            return
        for sender in list(self.senders.known.values()):
            for consumer in list(sender.consumers.values()):
                timeout_ms = self._timeout_of(consumer)
                if timeout_ms == NO_LIMIT or consumer.is_away:
                    continue
                late = consumer.held_until(now_ms - timeout_ms, now_ms)
                if late:
                    self._time_out(sender, consumer, late, effects)

    def _time_out(
        self, sender: Sender, consumer: ConsumerState, late: list[int], effects: Effects | None
    ) -> None:
        runs = self.messages.take_held(consumer, late)
        self.messages.return_runs(runs, False, effects)
        consumer.timed_out += late
        if effects is not None:
            effects.add(TimedOut(consumer.sender, consumer.number, late))
        self._has_released(sender, consumer, True, effects)

    def _check_use(self, effects: Effects | None) -> None:
        if effects is not None and 0 < self._expires_at_ms() <= self.messages.now_ms:
            effects.add(Expired())

    def _expires_at_ms(self) -> int:
        """When the queue expires, unless it is used before; 0 if it does not."""
        expires_ms = self.messages.options.expires_ms
        if expires_ms == NO_LIMIT or self.messages.consumers.subscribed or self.messages.held_count:
            return 0
        return self.used_ms + expires_ms

    def wake_at_ms(self) -> int:
        """When the leader has to propose a `Tick`; 0 if time changes nothing."""
        messages = self.messages
        times = [messages.ready.next_expiry_ms(), messages.next_delayed_ms()]
        expires_at_ms = self._expires_at_ms()
        if expires_at_ms:
            times.append(max(expires_at_ms, self.checked_ms + EXPIRED_AGAIN_MS))
        if self.timeout_ms != NO_LIMIT and messages.held_count:
            times.append(self.checked_ms + min(self.timeout_ms, CHECK_INTERVAL_MS))
        return min([at_ms for at_ms in times if at_ms], default=0)

    def expire_at_ms(self) -> int:
        """When the leader has to propose an `Expire`, if messages expire wherever they are; 0 if
        none does.

        A block of a long queue is unpacked and packed again for each message that leaves it. So the
        longer the queue is, the more messages leave together.
        """
        messages = self.messages
        earliest_ms = messages.ready.earliest_ms()
        if not earliest_ms:
            return 0
        blocks = sum([queue.block_count for queue in messages.ready.queues()])
        interval_ms = EXPIRY_INTERVAL_MS + blocks * EXPIRY_INTERVAL_OF_BLOCK_MS
        interval_ms += messages.ready.count // MESSAGES_OF_INTERVAL_MS
        return max(earliest_ms, messages.expired_ms + interval_ms)

    # For clients that attach, and for new leaders

    def attach(self, number: int, seen: int, received: Mapping[int, int]) -> list[Effect]:
        """The effects that a client lacks. number: of its sender. received: the last delivery by
        consumer.

        The leader answers only when it has applied an entry of its own term. Before that, its state
        may be older than what an earlier leader has told the client.
        """
        sender = self.senders.known.get(number)
        if sender is None:
            return [UnknownSender(number)]
        effects: list[Effect] = []
        for consumer in sender.consumers.values():
            runs = consumer.held_after(received.get(consumer.number, 0))
            if runs and consumer.number in received:
                effects.append(Deliver(number, consumer.number, runs))
            if consumer is self.messages.consumers.active:
                effects.append(ActiveChanged(number, consumer.number, True))
            if consumer.timed_out:
                effects.append(TimedOut(number, consumer.number, consumer.timed_out))
        effects += [result for result in sender.results if result.number > seen]
        effects.append(Applied(number, sender.applied))
        if sender.has_ended:
            effects.append(SenderEnded(number))
        return effects

    def consumer(self, sender: int, number: int) -> ConsumerState | None:
        """A consumer by its name; None if it has ended."""
        known = self.senders.known.get(sender)
        return known.consumers.get(number) if known is not None else None

    def kept_letters(self) -> list[Effect]:
        """The dead letters that a new leader has to publish."""
        return self.messages.letters.effects()

    def live(self) -> list[int]:
        """The entries that messages refer to, as intervals of indexes: first, last, first ...

        They may cover a few others. Everything else before the last entry is in the state.
        """
        messages = self.messages
        parts = [part for queue in messages.ready.queues() for part in queue.live()]
        parts.append(messages.delayed.live())
        runs: list[int] = []
        for held in messages.letters.by_reason:
            runs += [run.index for run in held.runs]
        for sender in self.senders.known.values():
            for consumer in sender.consumers.values():
                runs += [run.index for run in consumer.held.runs]
        parts.append(intervals_of_indexes(runs))
        return joined(parts)
