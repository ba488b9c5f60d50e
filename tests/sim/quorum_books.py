"""What has to hold in every run of a simulated quorum queue, checked at every step.

One more machine applies each committed entry once: what it holds is compared with what clients were
told. The letters are those of docs/design/quorum-queues.md.
"""

from zlib import crc32

from leveret.cluster.quorum.machine.commands import (
    ClientCommand,
    Discard,
    EndDelays,
    Enqueue,
    EnqueueTimed,
    LettersDone,
    Purge,
    Settle,
    decode_entry,
)
from leveret.cluster.quorum.machine.effects import Deliver, Effects, PublishDeadLetters
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.machine.own_times import lives_of
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.snapshots import snapshot
from tests.sim.properties import require
from tests.sim.quorum_clients import expanded


class Books:
    """What is known of each message. texts: those of each entry with messages, by its index.

    due: when the messages of a delaying queue are to be released. released, cancelled: those that
    were.
    """

    def __init__(self, options):
        self.machine = QuorumMachine(options)
        self.texts = {}
        self.accepted = {}
        self.gone = set()
        self.confirmed, self.refused = set(), set()
        self.holders = {}
        self.returns = {}
        self.states = {}
        self.counts = {}
        self.order = {}
        self.due = {}
        self.released, self.cancelled = set(), set()

    def count(self, what, number=1):
        """Count what has happened, so that a scenario without it is noticed."""
        self.counts[what] = self.counts.get(what, 0) + number

    # Entries

    def text(self, run, at):
        """The message at a place of a run."""
        return self.texts[run.index][run.place + at]

    def apply(self, index, payload):
        """An entry is committed for the first time."""
        machine = self.machine
        entry = decode_entry(payload)
        command = entry.command
        if isinstance(command, Enqueue):
            self.texts[index] = payload[entry.messages_at :].split()
        applied, position = self._applied(command), machine.messages.position
        before = self._ready() if isinstance(command, Purge) else {}
        if isinstance(command, Settle | Discard):
            before = self._held(command)
        letters = self.letters()
        waiting = self._ready() if machine.messages.options.is_delaying else {}
        effects = Effects()
        machine.apply(index, payload, effects)
        if isinstance(command, LettersDone):
            self._gone(letters.keys() - self.letters().keys(), "published as dead letters")
        if self._applied(command) != applied:
            if isinstance(command, Enqueue):
                self._accepted(index, command, position)
            elif isinstance(command, Settle):
                self._gone(before, "settled")
            elif isinstance(command, Purge):
                self._gone(before.keys() - self._ready().keys(), "purged")
        if isinstance(command, EndDelays) and command.is_discarded:
            self._cancelled(waiting.keys() - self._ready().keys() - self.letters().keys())
        for effect in effects.take():
            if isinstance(effect, Deliver):
                self._delivers(effect)
            elif isinstance(effect, PublishDeadLetters) and waiting:
                self._released(effect, isinstance(command, EndDelays))
            elif isinstance(effect, PublishDeadLetters) and not effect.are_kept:
                self._gone(self._of(effect.runs), "died of " + effect.reason.name)
            self.count(type(effect).__name__)

    def _released(self, effect, is_early):
        """The delays of messages are over, or some were released early."""
        texts = [self.text(run, at) for run in effect.runs for at in range(run.count)]
        times = [(self.due[text], self.accepted[text]) for text in texts]
        require(times == sorted(times), "QD2: released out of order:", texts)
        for text in texts:
            require(text not in self.gone, "QD5:", text, "is released, and it is gone")
            is_due = self.due[text] <= self.machine.messages.now_ms
            require(is_due or is_early, "QD2:", text, "is released too early")
        self.released.update(texts)
        self.count("released", len(texts))

    def _cancelled(self, texts):
        self.cancelled |= texts
        self._gone(texts, "cancelled")

    def _applied(self, command):
        if not isinstance(command, ClientCommand):
            return None
        sender = self.machine.senders.known.get(command.sender)
        return sender and sender.applied

    def _of(self, runs):
        return {self.text(run, at): run.position + at for run in runs for at in range(run.count)}

    def _held(self, command):
        sender = self.machine.senders.known.get(command.sender)
        consumer = sender and sender.consumers.get(command.consumer)
        held = self._of(consumer.held.runs) if consumer else {}
        named = command.positions
        return {
            text
            for text, position in held.items()
            if any(named[at] <= position <= named[at + 1] for at in range(0, len(named), 2))
        }

    def letters(self):
        """The dead letters that are kept, and their positions."""
        by_reason = self.machine.messages.letters.by_reason
        return self._of([run for held in by_reason for run in held.runs])

    def _ready(self):
        messages = self.machine.messages
        ready = [run for queue in messages.ready.queues() for run in queue.runs()]
        return self._of([*ready, *messages.delayed.runs])

    def _accepted(self, index, command, position):
        sender = self.machine.senders.known[command.sender]
        result = sender.results[-1] if sender.results else None
        refused = ()
        if result is not None and result.number == command.number:
            refused = result.refused
        lives_ms = [command.runs[2] - 1] * len(self.texts[index])
        if isinstance(command, EnqueueTimed):
            lives_ms = lives_of(command.times[0])
        for place, text in enumerate(self.texts[index]):
            if any(refused[at] <= place <= refused[at + 1] for at in range(0, len(refused), 2)):
                self.count("refused")
                continue
            require(text not in self.accepted, "QM1:", text, "is published twice")
            self.accepted[text] = position
            publisher, number = text[:1], int(text[1:])
            last = self.order.get(publisher, -1)
            require(number > last, "QM1:", text, "comes after", last)
            self.order[publisher] = number
            self.due[text] = self.machine.messages.now_ms + max(0, lives_ms[place])
            position += 1

    def _gone(self, texts, why):
        for text in texts:
            require(text not in self.gone, "QM4:", text, why, "but it is gone")
            self.gone.add(text)
            self.count(why)

    def _delivers(self, effect):
        last = 0
        for run in effect.runs:
            require(run.delivery > last, "QM8: deliveries are out of order")
            last = run.delivery + run.count - 1
            for at in range(run.count):
                text = self.text(run, at)
                require(text not in self.gone, "QM4:", text, "is delivered, and it is gone")
                require(run.position + at == self.accepted[text], "QM4:", text, "at", run.position)

    def reached(self, index, machine):
        """A member has applied entries through an index: all are in the same state there."""
        state = crc32(snapshot(machine))
        known = self.states.setdefault(index, state)
        require(known == state, "QM5: members differ after entry", index)

    # What clients are told

    def published(self, text, is_taken):
        """A publish is confirmed, or refused."""
        (self.confirmed if is_taken else self.refused).add(text)
        require((text in self.accepted) == is_taken, "QM1:", text, "is confirmed:", is_taken)

    def delivered(self, consumer, text, position, returns):
        """A message arrives at a client that does not hold it."""
        self.count("arrived")
        require(self.accepted.get(text) == position, text, "arrives with another position")
        require(returns >= self.returns.get((text, consumer.user), 0), "counts fall for", text)
        self.returns[text, consumer.user] = returns + 1
        if not self._lives(consumer.user) or position in self._timed_out(consumer):
            return
        holder = self.holders.get(text)
        if holder is not None and holder is not consumer and self._lives(holder.user):
            require(
                position not in holder.held or holder not in holder.user.consumers
                or position in self._timed_out(holder),
                "QM4:", text, "is with", consumer.user.name, "and with", holder.user.name,
            )  # fmt: skip
        self.holders[text] = consumer

    def unseen(self, text, user):
        """A message goes back as if it had not arrived."""
        self.returns[text, user] -= 1

    def _timed_out(self, holder):
        """What a consumer has held for too long."""
        sender = self.machine.senders.known[holder.user.client.sender]
        consumer = sender.consumers.get(holder.holder.number)
        return expanded(consumer.timed_out) if consumer else [*holder.held]

    def _lives(self, user):
        """Whether a client is not taken for gone, and has a leader."""
        sender = self.machine.senders.known.get(user.client.sender)
        return sender is not None and not sender.has_ended and user.use.leader

    # The end

    def check_end(self, users):
        """Everything is up and quiet."""
        machine = self.machine
        require(self.confirmed <= self.accepted.keys(), "QM1: confirmed and lost")
        require(not self.refused & self.accepted.keys(), "QM1: refused and taken")
        held = {
            (sender.sender, number): self._of(consumer.held.runs)
            for sender in machine.senders.known.values()
            for number, consumer in sender.consumers.items()
        }
        places = [self._ready(), self.letters(), *held.values()]
        there = [text for place in places for text in place]
        require(len(there) == len(set(there)), "QM4: a message is in two places")
        lost = (self.accepted.keys() - self.gone) ^ set(there)
        require(not lost, "QM4: messages are lost, or there again:", sorted(lost))
        counts = figures(machine)
        number = counts.ready + counts.unacked + counts.letters + counts.delayed
        require(number == len(there), "counts:", number, "of", len(there))
        known = {}
        for user in users:
            client = user.client
            require(client.has_done(client.last, client.sender), "a command of", user.name, "waits")
            require(not user.waiting, "a publish of", user.name, "waits")
            for consumer in user.consumers:
                require(consumer.is_answered, "a consumer of", user.name, "waits")
                name = (client.sender, consumer.holder.number)
                known[name] = {text: position for position, text in consumer.held.items()}
        for name in sorted({*known, *held}):
            require(
                known.get(name) == held.get(name),
                "QM8: client", name, "holds", known.get(name), "the queue knows of", held.get(name),
            )  # fmt: skip
