"""Whatever bytes come from a disk or from another node, they are read, or are one error."""

from random import Random

import pytest

from leveret.cluster.groups.group_frames import (
    AttachClient,
    Find,
    GroupFrameError,
    OfferSnapshot,
    encode_item,
    encode_raft,
    items_of,
)
from leveret.cluster.quorum.effect_bytes import EffectError, decode_effects, encode_effects
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Checkout,
    CommandError,
    Join,
    NodeDown,
    decode_command,
    encode_command,
)
from leveret.cluster.quorum.machine.effects import Applied, Outcome, Result, TimedOut
from leveret.cluster.quorum.queue_machines import (
    FIGURES,
    FiguresError,
    QueueMachines,
    decode_figures,
)
from leveret.cluster.raft.configuration import (
    Configuration,
    ConfigurationError,
    decode_configuration,
    encode_configuration,
)
from leveret.cluster.raft.messages import AskVote, MessageError, decode_message, encode_message
from leveret.cluster.replicated_queues.membership_record import (
    AddMember,
    RecordError,
    RefusedChange,
    RenameNode,
    changed,
    decode_change,
    decode_record,
    encode,
    new_record,
)

RECORD = new_record(("a@host", "b@host"))


def figures():
    """The figures of a queue with a consumer."""
    machine = QueueMachines().new()
    for number, command in enumerate(
        (Join(7, 1, 0, "a@host", 1), Checkout(7, 2, 0, "tag", 1, 0, False, NO_LIMIT, b"details")), 1
    ):
        machine.apply(number, machine.entry(encode_command(command), 1), False)
    return machine.answer(FIGURES)


READ = {
    "configuration": (
        decode_configuration, ConfigurationError,
        [encode_configuration(Configuration(("a@host",), ("b@host",)))],
    ),
    "message": (
        decode_message, MessageError, [encode_message(AskVote(5, 2, True, 3, 1, 0))],
    ),
    "frame": (
        lambda data: list(items_of(data)), GroupFrameError,
        [
            encode_item(Find(5)) + encode_item(AttachClient(5, 1, 7, 0, {1: 2})),
            encode_raft("a@host", "b@host", b"message"),
            encode_item(OfferSnapshot(5, 1, "b@host/2", 9, 2, b"configuration", 3)),
        ],
    ),
    "record": (decode_record, RecordError, [encode(RECORD)]),
    "change": (
        lambda data: changed(RECORD, decode_change(data)), (RecordError, RefusedChange),
        [encode(AddMember("c@host")), encode(RenameNode("a@host", "c@host"))],
    ),
    "effects": (
        decode_effects, EffectError,
        [encode_effects([Applied(7, 3), Result(7, 4, Outcome.GOT, 2), TimedOut(7, 2, [1, 4])])],
    ),
    "figures": (decode_figures, FiguresError, [figures()]),
    "command": (
        decode_command, CommandError,
        [encode_command(Join(7, 1, 0, "a@host", 1)), encode_command(NodeDown("a@host", 1))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_damaged_bytes_are_read_or_are_one_error(kind):
    read, errors, examples = READ[kind]
    random = Random(1)
    for _ in range(1_000):
        example = random.choice(examples)
        read(example)
        data = bytearray(example)
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            read(bytes(data[: random.choice((len(data), random.randrange(len(data) + 1)))]))
        except errors:
            continue


@pytest.mark.parametrize("kind", ["configuration", "frame", "record", "change", "figures"])
def test_damaged_text_is_the_same_error(kind):
    read, errors, examples = READ[kind]
    data = b"".join(examples).replace(b"@host", b"\xff\xfe\xfd\xfc\xfb")
    with pytest.raises(errors):
        read(data if kind == "frame" else data[: len(examples[0])])
