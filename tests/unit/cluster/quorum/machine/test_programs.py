"""Programs of random commands: the machine does what the plain model does, on every member alike.

A leader, which collects effects, a follower, and members that come from a snapshot are compared
after each command. `PROGRAMS` and `FIRST` in the environment run others.
"""

import os
from random import Random

import pytest

from leveret.cluster.quorum.machine.commands import Options, encode_command, entry_of
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Applied,
    Delayed,
    DelaysEnded,
    Deliver,
    Dropped,
    Effects,
    Expired,
    LettersDropped,
    Outcome,
    PublishDeadLetters,
    RefusedDuplicates,
    Result,
    TimedOut,
    UnknownSender,
)
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.snapshots import restore, snapshot
from tests.unit.cluster.quorum.machine.programs import Program
from tests.unit.cluster.quorum.machine.queue_model import QueueModel

PROGRAMS, STEPS = int(os.environ.get("PROGRAMS", "60")), 150
FIRST = int(os.environ.get("FIRST", "1"))
NAMES = {Outcome.EMPTY: "empty", Outcome.GOT: "got", Outcome.PURGED: "purged",
         Outcome.SINGLE_ACTIVE: "single active"}  # fmt: skip


def expanded(intervals):
    return [
        position
        for at in range(0, len(intervals), 2)
        for position in range(intervals[at], intervals[at + 1] + 1)
    ]


def told_by(effects):
    """What the effects of one entry say, as the model says it."""
    told = []
    for effect in effects:
        if isinstance(effect, Deliver):
            told += [
                ("deliver", (effect.sender, effect.consumer), run.position + at, run.index,
                 run.place + at, run.returns, run.delivery + at)
                for run in effect.runs
                for at in range(run.count)
            ]  # fmt: skip
        elif isinstance(effect, Result):
            name = (effect.sender, effect.number)
            if effect.outcome is Outcome.REFUSED:
                told.append(("refused", *name, expanded(effect.refused)))
            elif effect.outcome in {Outcome.GOT, Outcome.PURGED}:
                told.append((NAMES[effect.outcome], *name, effect.value))
            else:
                told.append((NAMES[effect.outcome], *name))
        elif isinstance(effect, PublishDeadLetters | Dropped):
            told += [
                (
                    type(effect).__name__,
                    effect.reason.name.lower(),
                    run.position + at,
                    run.delivery_count,
                )
                for run in effect.runs
                for at in range(run.count)
            ]
        elif isinstance(effect, ActiveChanged):
            told.append(("active", (effect.sender, effect.consumer), effect.is_active))
        elif isinstance(effect, TimedOut):
            name = (effect.sender, effect.consumer)
            told.append(("timed out", name, expanded(effect.positions)))
        elif isinstance(effect, UnknownSender):
            told.append(("unknown", effect.sender))
        elif isinstance(effect, DelaysEnded):
            told.append(("delays ended", effect.count))
        elif isinstance(effect, LettersDropped):
            told.append(("letters dropped", effect.count))
        else:
            assert isinstance(effect, Applied | Delayed | Expired | RefusedDuplicates)
    return told


def by_kind(told):
    """What was told in the order of each kind and receiver."""
    kinds = {}
    for one in told:
        receiver = one[1] if one[0] in {"deliver", "PublishDeadLetters", "Dropped"} else None
        kinds.setdefault((one[0], receiver), []).append(one)
    return kinds


def positions_of(runs):
    return [position for run in runs for position in range(run.position, run.last + 1)]


def check_equal(machine, model):
    messages = machine.messages
    ready = messages.ready
    assert positions_of(ready.returned.runs()) == [one.position for one in model.returned]
    levels = [positions_of(level.queue.runs()) for level in ready.levels]
    assert [level for level in levels if level] == [
        [one.position for one in line] for line in model.levels()
    ]
    assert sorted(positions_of(messages.delayed.runs)) == sorted(
        one.position for one in model.delayed
    )
    letters = [run for held in messages.letters.by_reason for run in held.runs]
    assert sorted(positions_of(letters)) == sorted(one.position for _, one in model.letters)
    consumers = {
        (sender.sender, number): consumer
        for sender in machine.senders.known.values()
        for number, consumer in sender.consumers.items()
    }
    assert consumers.keys() == {one.name for one in model.consumers}
    for one in model.consumers:
        consumer = consumers[one.name]
        assert positions_of(consumer.held.in_order_of_delivery()) == [
            message.position for message in one.held
        ]
        assert set(expanded(consumer.timed_out)) == one.timed_out
    order = [(one.sender, one.number) for one in messages.consumers.in_service()]
    turns = sorted(model.turns, key=lambda one: -one.priority)
    assert order == [one.name for one in turns]
    check_counts(machine, model)


def check_counts(machine, model):
    counts = figures(machine)
    waiting = [*model.waiting, *model.returned]
    held = [message for one in model.consumers for message in one.held]
    assert (counts.ready, counts.ready_bytes) == (len(waiting), sum(one.size for one in waiting))
    assert (counts.unacked, counts.unacked_bytes) == (len(held), sum(one.size for one in held))
    assert counts.delayed == len(model.delayed)
    assert counts.delayed_bytes == sum(one.size for one in model.delayed)
    assert counts.letters == len(model.letters)
    assert counts.letters_bytes == sum(one.size for _, one in model.letters)
    assert counts.returned == len(model.returned)
    assert counts.is_refusing == model.is_refusing
    live = set(expanded(machine.live()))
    letters = [one for _, one in model.letters]
    assert {one.index for one in [*waiting, *held, *model.delayed, *letters]} <= live


class Members:
    """The members of one group, which apply the same entries."""

    def __init__(self, random):
        self.random = random
        self.leader, self.follower, self.restored = (QuorumMachine(Options()) for _ in range(3))
        self.effects = Effects()

    def apply(self, index, entry):
        self.leader.apply(index, entry, self.effects)
        self.follower.apply(index, entry)
        self.restored.apply(index, entry)
        if index % 5 == 0 or self.random.random() < 0.1:
            state = snapshot(self.leader)
            assert snapshot(self.follower) == state
            assert snapshot(self.restored) == state
            self.restored = restore(state)
            assert snapshot(self.restored) == state
            if self.random.random() < 0.3:
                self.leader, self.follower = self.follower, self.leader
        return self.effects.take()


def run_program(seed, steps=STEPS):
    random = Random(seed)
    model, members = QueueModel(), Members(random)
    program = Program(random, model)
    now_ms, command = program.now_ms, program.first()
    for index in range(1, steps):
        model.apply(index, now_ms, command)
        effects = members.apply(index, entry_of(encode_command(command), now_ms))
        try:
            assert by_kind(told_by(effects)) == by_kind(model.told)
            check_equal(members.leader, model)
        except AssertionError as error:
            raise AssertionError(f"program {seed}, command {index}: {command}\n{error}") from error
        now_ms, command = program.step()
    return members.leader


@pytest.mark.parametrize("first", range(FIRST, FIRST + PROGRAMS, 20))
def test_the_machine_does_what_the_model_does(first):
    for seed in range(first, first + 20):
        run_program(seed)
