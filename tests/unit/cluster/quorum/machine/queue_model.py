"""The quorum queue once more, slow and plain: one message at a time, in lists and dictionaries.

The machine has to do the same (test_programs.py). Nothing here knows of runs, bytes or snapshots.
"""

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    ClientCommand,
    DeadLetterStrategy,
    DelayedRetry,
    Join,
    Options,
    enqueued_runs,
)
from leveret.cluster.quorum.machine.own_times import lives_of


class Message:
    def __init__(self, position, index, place, size, priority, expires_at_ms):
        self.position, self.index, self.place = position, index, place
        self.size, self.priority, self.expires_at_ms = size, priority, expires_at_ms
        self.returns = self.delivery_count = 0
        self.delivery = self.since_ms = 0


class Consumer:
    def __init__(self, name, command, is_once=False):
        self.name = name
        self.credit = 1 if is_once else command.credit
        self.priority = 0 if is_once else command.priority
        self.timeout_ms = NO_LIMIT if is_once else command.timeout_ms
        self.no_ack = command.no_ack
        self.is_once = is_once
        self.is_cancelled = self.is_away = False
        self.held = []
        self.timed_out = set()
        self.delivered = 0

    def is_able(self):
        return not (self.is_once or self.is_cancelled or self.is_away or self.timed_out)


class QueueModel:
    """The queue. told: what clients and the leader were told by the last command."""

    def __init__(self):
        self.options = Options()
        self.now_ms = 0
        self.is_for_now = False
        self.position = 1
        self.waiting, self.returned, self.delayed = [], [], []
        self.letters = []
        self.consumers = []
        self.turns = []
        self.active = None
        self.senders = {}
        self.ended = {}
        self.is_refusing = False
        self.taken = 0
        self.known = {}
        self.told = []

    def apply(self, index, now_ms, command):
        self.told = []
        self.now_ms = max(self.now_ms, now_ms)
        self.is_for_now = False
        for message in sorted(self.delayed, key=lambda one: (one.since_ms, one.position)):
            if message.since_ms <= self.now_ms:
                self.delayed.remove(message)
                if self.options.delayed_expire and 0 < message.expires_at_ms <= self.now_ms:
                    self.die(message, "expired")
                else:
                    self.returned.append(message)
        if isinstance(command, ClientCommand):
            if not self.is_next(command):
                return
            self.senders[command.sender]["applied"] = command.number
        getattr(self, "do_" + type(command).__name__.lower())(index, command)
        self.deliver()

    def is_next(self, command):
        known = self.senders.get(command.sender)
        if known and not known["ended"]:
            return command.number == known["applied"] + 1
        if (
            not known
            and isinstance(command, Join)
            and (command.sender > self.ended.get(command.node, 0))
        ):
            for sender, facts in list(self.senders.items()):
                if facts["node"] == command.node:
                    self.end_sender(sender)
                    self.forget(sender)
            self.senders[command.sender] = {
                "applied": 1, "node": command.node, "incarnation": command.incarnation,
                "away": False, "ended": False,
            }  # fmt: skip
            return True
        self.told.append(("unknown", command.sender))
        return False

    # Messages

    def do_join(self, index, command):
        pass

    def do_enqueueonce(self, index, command):
        self.do_enqueue(index, command, command.keys)

    def do_enqueuetimed(self, index, command):
        self.do_enqueue(index, command, times=command.times)

    def do_enqueue(self, index, command, keys=(), times=None):
        place, refused = 0, []
        keys = keys if self.options.cache_size else ()
        for number, run in enumerate(enqueued_runs(command)):
            own = (times or {}).get(number)
            lives_ms = [run.ttl_ms] * run.count if own is None else lives_of(own)
            if not keys:
                self.expiry(min(lives_ms))
            for life_ms in lives_ms:
                key = keys[place] if keys else b""
                is_known = self.knows(key)
                expires_at_ms = 0 if is_known else self.expiry(life_ms)
                if is_known:
                    pass
                elif self.options.rejects_publishes and self.is_refusing:
                    refused.append(place)
                else:
                    if key:
                        self.known[key] = (self.position, self.now_ms + self.options.cache_ttl_ms)
                    self.waiting.append(
                        Message(self.position, index, place, run.size, run.priority, expires_at_ms)
                    )
                    self.position += 1
                    if self.options.rejects_publishes:
                        self.deliver()
                place += 1
        if refused:
            self.told.append(("refused", command.sender, command.number, refused))

    def knows(self, key):
        """Whether the message with a key is in the queue, or its time is not over."""
        position, until_ms = self.known.get(key, (0, 0))
        held = [message for one in self.consumers for message in one.held]
        present = [*self.waiting, *self.returned, *self.delayed, *held]
        return until_ms > self.now_ms or position in {one.position for one in present}

    def do_enddelays(self, index, command):
        ranges = list(zip(command.positions[::2], command.positions[1::2], strict=True))
        ended = [
            one for one in sorted(self.delayed, key=lambda one: (one.since_ms, one.position))
            if not ranges or any(first <= one.position <= last for first, last in ranges)
        ]  # fmt: skip
        for message in ended:
            self.delayed.remove(message)
            if not command.is_discarded:
                self.returned.append(message)
        self.told.append(("delays ended", len(ended)))

    def expiry(self, ttl_ms):
        ttls = [one for one in (ttl_ms, self.options.message_ttl_ms) if one != NO_LIMIT]
        if ttls and min(ttls) == 0:
            self.is_for_now = True
        return self.now_ms + max(1, min(ttls)) if ttls else 0

    def level(self, message):
        levels = self.options.priorities
        if levels == 1:
            return 0
        return int(message.priority > 4) if levels == 2 else min(message.priority, levels - 1)

    def next(self):
        if self.returned:
            return self.returned[0]
        if self.options.is_successor:
            return min([line[0] for line in self.levels()], key=lambda one: one.position)
        best = max([self.level(message) for message in self.waiting])
        first = {level: [one for one in self.waiting if self.level(one) == level]
                 for level in (0, best)}  # fmt: skip
        if self.options.priorities == 2 and best == 1 and first[0] and self.taken == 2:
            return min(first[0][0], first[1][0], key=lambda one: one.position)
        return first[best][0]

    def take(self):
        message = self.next()
        if message in self.returned:
            self.returned.remove(message)
        else:
            self.waiting.remove(message)
            if self.options.priorities == 2 and not self.options.is_successor:
                self.taken = (self.taken + 1) % 3
        return message

    def drop_expired(self, early_ms=0):
        if self.options.is_successor:
            return
        for line in [self.returned, *self.levels()]:
            for message in list(line):
                if not 0 < message.expires_at_ms <= self.now_ms + early_ms:
                    break
                (self.returned if line is self.returned else self.waiting).remove(message)
                self.die(message, "expired")

    def levels(self):
        return [
            [one for one in self.waiting if self.level(one) == level]
            for level in sorted({self.level(one) for one in self.waiting}, reverse=True)
        ]

    def deliver(self):
        self.drop_expired()
        while (self.waiting or self.returned) and self.turns:
            top = max(consumer.priority for consumer in self.turns)
            consumer = next(one for one in self.turns if one.priority == top)
            self.give(consumer)
            self.turns.remove(consumer)
            self.join_turns(consumer)
            self.drop_expired()
        if self.is_for_now:
            self.drop_expired(early_ms=1)
        self.keep_limits()

    def give(self, consumer):
        message = self.take()
        consumer.delivered += 1
        message.delivery, message.since_ms = consumer.delivered, self.now_ms
        consumer.held.append(message)
        self.told.append(("deliver", consumer.name, message.position, message.index,
                          message.place, message.returns, message.delivery))  # fmt: skip

    def limited(self):
        every = [*self.waiting, *self.returned, *self.delayed, *[one for _, one in self.letters]]
        return len(every), sum(one.size for one in every)

    def exceeds(self, share=1.0):
        limits = (self.options.max_length, self.options.max_length_bytes)
        return any(
            limit != NO_LIMIT and number > int(limit * share)
            for limit, number in zip(limits, self.limited(), strict=True)
        )

    def keep_limits(self):
        if self.options.rejects_publishes:
            self.is_refusing = self.exceeds() or (self.is_refusing and self.exceeds(0.8))
            return
        self.is_refusing = False
        while (self.waiting or self.returned) and self.exceeds():
            self.die(self.take(), "maxlen")

    def die(self, message, reason):
        strategy = self.options.dead_letters
        kind = "Dropped" if strategy == DeadLetterStrategy.DROP else "PublishDeadLetters"
        self.told.append((kind, reason, message.position, message.delivery_count))
        if strategy == DeadLetterStrategy.AT_LEAST_ONCE:
            self.letters.append((reason, message))

    # Settling

    def held_of(self, command):
        for consumer in self.consumers:
            if consumer.name == (command.sender, command.consumer):
                ranges = list(zip(command.positions[::2], command.positions[1::2], strict=True))
                named = [
                    one for one in consumer.held
                    if any(first <= one.position <= last for first, last in ranges)
                ]  # fmt: skip
                for message in named:
                    consumer.held.remove(message)
                consumer.timed_out = {
                    position for position in consumer.timed_out
                    if not any(first <= position <= last for first, last in ranges)
                }  # fmt: skip
                return consumer, named
        return None, []

    def do_settle(self, index, command):
        consumer, _ = self.held_of(command)
        self.released(consumer)

    def do_return(self, index, command):
        consumer, named = self.held_of(command)
        if command.is_unseen:
            self.returned += named
        else:
            self.give_back(named, command.is_failed)
        self.released(consumer)

    def do_discard(self, index, command):
        consumer, named = self.held_of(command)
        for message in named:
            self.die(message, "rejected")
        self.released(consumer)

    def delay(self, count):
        least_ms, thousandths = (
            self.options.delayed_retry_min_ms, self.options.delayed_retry_multiplier
        )  # fmt: skip
        return least_ms * (thousandths / 1000) ** (count - 1) if thousandths else least_ms * count

    def give_back(self, messages, is_failed):
        options = self.options
        for message in messages:
            message.returns += 1
            message.delivery_count += is_failed or options.counts_returns
            kind = DelayedRetry.FAILED if is_failed else DelayedRetry.RETURNED
            if NO_LIMIT < options.delivery_limit < message.delivery_count:
                continue
            if options.delayed_retry in {DelayedRetry.ALL, kind}:
                delay = self.delay(max(1, message.delivery_count))
                message.since_ms = self.now_ms + min(delay, options.delayed_retry_max_ms)
                if options.delayed_expire and message.expires_at_ms:
                    message.since_ms = min(message.since_ms, message.expires_at_ms)
                self.delayed.append(message)
            elif options.returns_to_end and not is_failed:
                self.waiting.append(message)
            else:
                self.returned.append(message)
        for message in messages:
            if NO_LIMIT < options.delivery_limit < message.delivery_count:
                self.die(message, "delivery_limit")

    def released(self, consumer):
        if consumer is None:
            return
        is_ending = consumer.is_cancelled or consumer.is_once
        if is_ending and not consumer.held and not consumer.timed_out:
            self.remove(consumer)
        else:
            self.join_turns(consumer)
        self.elect()

    # Consumers

    def do_checkout(self, index, command):
        consumer = Consumer((command.sender, command.number), command)
        consumer.is_away = self.senders[command.sender]["away"]
        self.consumers.append(consumer)
        self.join_turns(consumer)
        self.elect()

    def join_turns(self, consumer):
        able = consumer.is_able() and len(consumer.held) < consumer.credit
        if self.options.is_single_active:
            able = able and consumer is self.active and self.successor() is consumer
        if able and consumer not in self.turns:
            self.turns.append(consumer)
        if not able and consumer in self.turns:
            self.turns.remove(consumer)

    def successor(self):
        active = self.active
        candidates = [one for one in self.consumers if one.is_able()]
        if (
            active
            and active not in candidates
            and (active.is_away and not active.is_cancelled and not active.timed_out)
        ):
            candidates.append(active)
        if not candidates:
            return None
        if not self.options.elects_by_priority:
            return active if active in candidates else candidates[0]
        top = max(one.priority for one in candidates)
        best = [one for one in candidates if one.priority == top]
        return active if active in best else best[0]

    def elect(self):
        if not self.options.is_single_active:
            return
        before, chosen = self.active, self.successor()
        if not (before and before.held and not before.is_cancelled):
            self.active = chosen
            if chosen is not before:
                self.told += [("active", one.name, one is chosen) for one in (before, chosen)
                              if one in self.consumers]  # fmt: skip
        for consumer in self.consumers:
            self.join_turns(consumer)

    def remove(self, consumer):
        self.consumers.remove(consumer)
        if consumer in self.turns:
            self.turns.remove(consumer)
        if consumer is self.active:
            self.active = None

    def do_cancel(self, index, command):
        for consumer in list(self.consumers):
            if consumer.name == (command.sender, command.consumer):
                consumer.is_cancelled = True
                if command.returns:
                    consumer.timed_out = set()
                    held, consumer.held = consumer.held, []
                    self.give_back(held, True)
                self.released(consumer)

    def do_get(self, index, command):
        name = (command.sender, command.number)
        if self.options.is_single_active:
            self.told.append(("single active", *name))
            return
        self.drop_expired()
        if not self.waiting and not self.returned:
            self.told.append(("empty", *name))
            return
        consumer = Consumer(name, command, is_once=True)
        self.give(consumer)
        consumer.is_away = self.senders[command.sender]["away"]
        self.consumers.append(consumer)
        self.told.append(("got", *name, len(self.waiting) + len(self.returned)))

    def do_expire(self, index, command):
        every = [*self.returned, *self.waiting]
        over = [one for one in every if 0 < one.expires_at_ms <= self.now_ms]
        if not self.options.is_successor:
            for message in sorted(over, key=lambda one: (one.expires_at_ms, one.position)):
                (self.returned if message in self.returned else self.waiting).remove(message)
                self.die(message, "expired")
        self.do_tick(index, command)

    def do_purge(self, index, command):
        count = len(self.waiting) + len(self.returned) + len(self.delayed)
        self.waiting, self.returned, self.delayed, self.taken = [], [], [], 0
        self.known = {}
        self.told.append(("purged", command.sender, command.number, count))

    def do_leave(self, index, command):
        self.end_sender(command.sender)
        self.forget(command.sender)

    def forget(self, sender):
        node = self.senders.pop(sender)["node"]
        self.ended[node] = max(self.ended.get(node, 0), sender)

    def end_sender(self, sender):
        for consumer in [one for one in self.consumers if one.name[0] == sender]:
            held, consumer.held = consumer.held, []
            self.give_back(held, True)
            self.remove(consumer)
        self.senders[sender]["ended"] = True
        self.elect()

    # The leader

    def do_nodedown(self, index, command):
        for sender, facts in list(self.senders.items()):
            is_of_it = facts["node"] == command.node and not facts["ended"]
            if is_of_it and facts["incarnation"] <= command.incarnation:
                self.end_sender(sender)
                self.told.append(("unknown", sender))

    def do_nodedisconnected(self, index, command):
        self.set_away(command.node, True)

    def do_nodeconnected(self, index, command):
        self.set_away(command.node, False)

    def set_away(self, node, is_away):
        for sender, facts in self.senders.items():
            if facts["node"] == node:
                facts["away"] = is_away
                for consumer in self.consumers:
                    if consumer.name[0] == sender:
                        consumer.is_away = is_away
                        self.join_turns(consumer)
        self.elect()

    def do_configure(self, index, command):
        if command.options.priorities != self.options.priorities:
            self.taken = 0
            self.waiting.sort(key=lambda one: one.position)
        self.options = command.options
        if not self.options.cache_size:
            self.known = {}
        if self.options.dead_letters != DeadLetterStrategy.AT_LEAST_ONCE and self.letters:
            self.told.append(("letters dropped", len(self.letters)))
            self.letters = []
        for consumer in self.consumers:
            self.join_turns(consumer)
        self.elect()

    def do_lettersdone(self, index, command):
        ranges = list(zip(command.positions[::2], command.positions[1::2], strict=True))
        self.letters = [
            (reason, one) for reason, one in self.letters
            if not any(first <= one.position <= last for first, last in ranges)
        ]  # fmt: skip

    def do_tick(self, index, command):
        # Per sender, as the machine has them.
        for sender in list(self.senders):
            for consumer in [one for one in self.consumers if one.name[0] == sender]:
                limit = consumer.timeout_ms
                if limit == NO_LIMIT:
                    limit = self.options.consumer_timeout_ms
                if limit == NO_LIMIT or consumer.no_ack or consumer.is_away:
                    continue
                late = [one for one in consumer.held if one.since_ms + limit <= self.now_ms]
                if late:
                    consumer.held = [one for one in consumer.held if one not in late]
                    self.give_back(late, False)
                    consumer.timed_out |= {one.position for one in late}
                    self.told.append(("timed out", consumer.name,
                                      sorted(one.position for one in late)))  # fmt: skip
                    self.released(consumer)
