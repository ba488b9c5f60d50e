"""The queue's state machine as a group runs it, and its effects on their way to clients."""

import msgspec
import pytest

from leveret.cluster.quorum.effect_bytes import EffectError, decode_effects, encode_effects
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Checkout,
    CommandError,
    Configure,
    Enqueue,
    EnqueuedRun,
    Expire,
    Get,
    Join,
    Options,
    Tick,
    decode_entry,
    encode_command,
    enqueued_runs,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Applied,
    Deliver,
    Outcome,
    PublishDeadLetters,
    Reason,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
    Withheld,
)
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.queue_group import full_figures
from leveret.cluster.quorum.queue_machines import (
    FIGURES,
    MESSAGE_BYTES_MIN,
    QueueMachines,
    decode_figures,
)

EFFECTS = [
    Applied(7, 3),
    Result(7, 4, Outcome.REFUSED, 0, (1, 2, 5, 5)),
    Deliver(7, 2, [Run(1, 5, 9, 3, 100, 4, returns=2, delivery_count=1, delivery=6)]),
    ActiveChanged(7, 2, True),
    TimedOut(7, 2, [1, 4]),
    UnknownSender(7),
    SenderEnded(7),
    Withheld(7, 2, [Run(1, 5, 9, 3, 100, 4, delivery=6)]),
]


def fields(effect):
    """An effect as plain values."""
    return type(effect), {
        name: [fields(one) for one in value] if name == "runs" else value
        for name in dir(effect)
        for value in [getattr(effect, name)]
        if not name.startswith("_") and not callable(value)
    }


def encoded(command):
    """A command, with as many bytes as the messages of a publish need."""
    if not isinstance(command, Enqueue):
        return encode_command(command)
    runs = enqueued_runs(command)
    octets = sum(run.count * (run.size + MESSAGE_BYTES_MIN) for run in runs)
    return encode_command(command, bytes(octets))


def commands(machine, *commands):
    """Apply commands of a client as entries."""
    for index, command in enumerate(commands, 1):
        machine.apply(index, machine.entry(encoded(command), 5), True)


@pytest.fixture
def machine():
    """A machine with a consumer, which has one message, and is full."""
    machine = QueueMachines().new()
    commands(
        machine,
        Join(7, 1, 0, "a", 1),
        Checkout(7, 2, 0, "c", 1, 0, False, NO_LIMIT, b""),
        Enqueue(7, 3, 0, runs_of([EnqueuedRun(2, 1, NO_LIMIT, 0)])),
    )
    return machine


def test_effects_arrive_as_they_were_sent():
    arrived = decode_effects(encode_effects(EFFECTS))
    assert [fields(effect) for effect in arrived] == [fields(effect) for effect in EFFECTS]


@pytest.mark.parametrize("data", [b"", b"\x91\x92\x01\x07", b"\x91\x93\x63\x07\x01", b"garbage"])
def test_bytes_that_are_no_effects_are_an_error(data):
    with pytest.raises(EffectError, match="damaged"):
        decode_effects(data)


def test_damaged_runs_are_an_error():
    with pytest.raises(EffectError, match="damaged"):
        decode_effects(msgspec.msgpack.encode([(3, 7, 2, b"garbage")]))


def test_a_delivery_needs_the_entries_of_its_messages():
    machines = QueueMachines()
    assert [list(machines.entries_of(effect)) for effect in EFFECTS[:3]] == [[], [], [9]]


def test_effects_are_for_a_client_or_for_the_leader(machine):
    taken = machine.take_effects()
    assert [(sender, type(effect)) for sender, effect in taken] == [(7, Deliver), (7, Applied)]
    machine._effects.add(PublishDeadLetters(Reason.EXPIRED, [], False))
    assert machine.take_effects()[0][0] == 0


@pytest.mark.parametrize(
    ("runs", "counts"),
    [
        ([(600, 924)], [256, 256, 88]),
        ([(100, 924), (300, 924), (3, 0)], [256, 147]),
        ([(3, 1_000_000)], [1, 1, 1]),
        ([(1, 1_000_000), (1, 10), (1, 1_000_000)], [1, 1, 1]),
        ([(2_000, 10)], [2_000]),
    ],
)
def test_large_deliveries_come_in_parts(runs, counts):
    machine = QueueMachines().new()
    commands(
        machine,
        Join(7, 1, 0, "a", 1),
        Enqueue(7, 2, 0, runs_of([EnqueuedRun(*run, NO_LIMIT, 0) for run in runs])),
        Checkout(7, 3, 0, "c", 2_000, 0, False, NO_LIMIT, b""),
    )
    effects = [effect for _, effect in machine.take_effects()]
    for told in (effects, machine.attach(7, 3, {3: 0})):
        delivers = [effect for effect in told if isinstance(effect, Deliver)]
        assert [sum(run.count for run in one.runs) for one in delivers] == counts
        delivered = [run for one in delivers for run in one.runs]
        numbers = [run.delivery + at for run in delivered for at in range(run.count)]
        assert numbers == list(range(1, sum(counts) + 1))
        assert [type(effect) for effect in told[len(delivers) :]] == [Applied]


def test_a_client_may_not_send_commands_of_leaders(machine):
    command = encode_command(Configure(Options()))
    for checked in (lambda: machine.accepted([command]), lambda: machine.entry(command, 5)):
        with pytest.raises(CommandError, match="a command of leaders"):
            checked()
    with pytest.raises(CommandError):
        machine.accepted([b"garbage"])
    with pytest.raises(CommandError):
        machine.entry(b"garbage", 5)


def test_a_member_that_comes_from_a_snapshot_is_equal(machine):
    *_, other = QueueMachines().restore(b"".join(machine.snapshot()))
    assert list(other.snapshot()) == list(machine.snapshot())
    assert other.live() == machine.live() == [(3, 3)]
    effects = other.attach(7, 0, {2: 0})
    assert [type(effect) for effect in effects] == [Deliver, Applied]


def test_a_snapshot_is_of_its_moment_while_the_machine_goes_on(machine):
    state = b"".join(machine.snapshot())
    pieces = machine.snapshot()
    publish = Enqueue(7, 4, 0, runs_of([EnqueuedRun(5, 1, NO_LIMIT, 0)]))
    machine.apply(4, machine.entry(encoded(publish), 6), False)
    assert b"".join(pieces) == state


def test_figures_are_the_answer_to_a_question(machine):
    figures = decode_figures(machine.answer(FIGURES))
    assert (figures.ready, figures.unacked, figures.consumers[0].node) == (1, 1, "a")
    with pytest.raises(ValueError, match="asks b'what'"):
        machine.answer(b"what")


def test_ages_follow_from_the_times_of_entries():
    machine = QueueMachines().new()
    runs = runs_of([EnqueuedRun(2, 1, NO_LIMIT, 0)])
    apply = [
        (Join(7, 1, 0, "a", 1), 1_000), (Enqueue(7, 2, 0, runs), 2_000),
        (Enqueue(7, 3, 0, runs), 5_000), (Get(7, 4, 0, True), 6_000),
    ]  # fmt: skip
    for index, (command, now_ms) in enumerate(apply, 1):
        machine.apply(index, machine.entry(encoded(command), now_ms), True)
        machine.take_effects()
    now = machine.figures()
    assert (now.oldest_ready_ms, now.waited_ms, sum(now.waited_counts)) == (2_000, 4_000, 1)
    assert now.memory_bytes > 0
    full = full_figures(now, 0.0, "a", wall_ms=9_000)
    assert (full.ages.oldest_ready_ms, full.status.memory_bytes) == (7_000, now.memory_bytes)


def test_a_tick_is_an_entry(machine):
    assert machine.tick_at_ms() == 0
    assert decode_entry(machine.tick(9)).now_ms == 9


def test_messages_expire_wherever_they_are_only_if_all_nodes_can():
    machine = QueueMachines().new()
    runs = runs_of([EnqueuedRun(1, 1, NO_LIMIT, 0), EnqueuedRun(1, 1, 500, 0)])
    for index, command in enumerate((Join(7, 1, 0, "a", 1), Enqueue(7, 2, 0, runs)), 1):
        machine.apply(index, machine.entry(encoded(command), 1_000), True)
    assert machine.tick_at_ms() == 0
    assert not machine.figures().expires_on_time
    machine.expires_on_time = lambda: True
    assert machine.tick_at_ms() == 1_500
    assert type(decode_entry(machine.tick(1_499)).command) is Tick
    tick = machine.tick(1_500)
    assert type(decode_entry(tick).command) is Expire
    machine.apply(3, tick, True)
    now = machine.figures()
    assert (now.ready, now.expired_on_time, now.expires_on_time) == (1, 1, True)
    assert machine.tick_at_ms() == 0


def test_a_publish_that_says_it_has_more_messages_than_its_bytes_hold_is_refused():
    machine = QueueMachines().new()
    publish = Enqueue(1, 2, 0, runs_of([EnqueuedRun(2, 10, NO_LIMIT, 0)]))
    whole = encode_command(publish, bytes(30))
    assert machine.accepted([whole]) == [whole]
    with pytest.raises(CommandError, match="need 30 bytes, and it has 29"):
        machine.accepted([whole, encode_command(publish, bytes(29))])
