"""The shapes of the structures that nodes send each other, and what two versions may differ in.

`python -m tests.wire_shapes` writes the shapes of the earlier version (tests/earlier_version.py) to
`wire_shapes.json`, after a release. A test compares those of this version with them: it needs no
history, and says what the other version would not understand.

A shape is JSON: the name of a plain type with its limits, or a list that begins with the kind of a
composed one.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from tests.earlier_version import earlier_sources, earlier_version

Shape: TypeAlias = str | list[Any]
RECORDED = Path(__file__).with_name("wire_shapes.json")
SENT = (
    "broker.declarations.values:AnyDeclaration",
    "cluster.deduplication.seen_elsewhere:_DECODER",
    "cluster.groups.group_frames:_DECODER",
    "cluster.groups.member_question:_DECODER",
    "cluster.links.addresses:KnownPort",
    "cluster.links.hello:Hello",
    "cluster.membership.membership_changes:ClusterMembership",
    "cluster.membership.membership_changes:MembershipChange",
    "cluster.metadata.messages:_decoder",
    "cluster.metadata.operations:Refusal",
    "cluster.metadata.operations:_encoded",
    "cluster.mirrors.record_changes:_changes",
    "cluster.mirrors.record_changes:_records",
    "cluster.node_status.clients_elsewhere:_DECODER",
    "cluster.node_status.limited_counts:ChangedCounts",
    "cluster.node_status.node_states:NodeState",
    "cluster.partitions.healing:_report",
    "cluster.partitions.healing:_verdict",
    "cluster.quorum.conversion.node_holds:HeldBy",
    "cluster.quorum.effect_bytes:_DECODER",
    "cluster.quorum.machine.commands:_DECODER",
    "cluster.quorum.machine.packed_runs:_DECODER",
    "cluster.quorum.machine.snapshots:_DECODER",
    "cluster.quorum.machine.snapshots:_IDENTIFIERS",
    "cluster.quorum.queue_group:_CONSUMERS",
    "cluster.quorum.queue_machines:MachineFigures",
    "cluster.raft.configuration:_DECODER",
    "cluster.raft.messages:_DECODER",
    "cluster.remote_queues.queue_frames:decode_counts",
    "cluster.remote_queues.queue_frames:decode_figures_question",
    "cluster.remote_queues.queue_frames:decode_open",
    "cluster.remote_queues.queue_frames:decode_question",
    "cluster.remote_queues.queue_frames:decode_result",
    "cluster.replicated_queues.membership_record:_CHANGES",
    "cluster.replicated_queues.membership_record:_RECORDS",
    "cluster.retained.frames:_DECODER",
    "cluster.rpc.absent_owners:EndOwnerRequest",
    "cluster.streams.client.member_questions:_CHUNKS",
    "cluster.streams.client.member_questions:_NUMBER",
    "cluster.streams.client.member_questions:_QUESTIONS",
    "cluster.streams.client.member_questions:_STATE",
    "cluster.streams.client.member_questions:_STATS",
    "cluster.streams.machine.questions:Tracked",
    "cluster.streams.machine.stream_machine:_State",
    "cluster.streams.stream_machines:_DECODER",
    "mgmt.api.asked_permissions:PermissionQuestion",
    "mgmt.api.file_pieces:FilePiece",
    "mgmt.api.joint_listing:KeyList",
    "mgmt.api.other_nodes:PassedAnswer",
    "mgmt.api.passed_answers:PassedRequest",
)
"""What nodes decode: the decoders in their modules, and the types that are decoded elsewhere."""


def shapes() -> dict[str, Shape]:
    """The shape of everything that is sent and that the version has, by its name in `SENT`."""
    found: dict[str, Shape] = {}
    for name in SENT:
        module_name, _, attribute = name.partition(":")
        try:
            sent = getattr(importlib.import_module(f"leveret.{module_name}"), attribute)
        except (ImportError, AttributeError):
            continue
        decoder = getattr(sent, "__self__", sent)
        type_ = decoder.type if isinstance(decoder, msgspec.msgpack.Decoder) else sent
        found[name] = _shape(inspect.type_info(type_))
    return found


def _shape(info: inspect.Type, inside: tuple[type, ...] = ()) -> Shape:
    """inside: the classes of the structures around it."""
    if isinstance(info, inspect.StructType | inspect.NamedTupleType):
        return _shape_of_fields(info, inside)

    def within(*types: inspect.Type) -> list[Shape]:
        return [_shape(one, inside) for one in types]

    match info:
        case inspect.UnionType():
            return ["union", sorted(within(*info.types), key=json.dumps)]
        case inspect.EnumType():
            return ["enum", sorted(one.value for one in info.cls)]
        case inspect.Metadata():
            return _shape(info.type, inside)
        case inspect.TupleType():
            return ["tuple", *within(*info.item_types)]
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType():
            return ["list", *within(info.item_type)]
        case inspect.FrozenSetType():
            return ["list", *within(info.item_type)]
        case inspect.DictType():
            return ["dict", *within(info.key_type, info.value_type)]
    limits = [
        f"{name}={value}" for name, value in msgspec.structs.asdict(info).items()
        if value is not None
    ]  # fmt: skip
    return " ".join((type(info).__name__.removesuffix("Type"), *limits))


def _shape_of_fields(
    info: inspect.StructType | inspect.NamedTupleType, inside: tuple[type, ...]
) -> Shape:
    if info.cls in inside:
        return "itself"
    around = (*inside, info.cls)
    fields = [
        [field.encode_name, field.required, _shape(field.type, around)] for field in info.fields
    ]
    if isinstance(info, inspect.NamedTupleType):
        return ["array", None, None, fields]
    return ["array" if info.array_like else "map", info.tag_field, info.tag, fields]


def differences(earlier: Shape, now: Shape, where: str) -> list[str]:
    """What one of two versions would not understand of the other: a sentence for each.

    A field that the earlier version lacks has a default and, in an array, is at its end: then the
    earlier version ignores it. A kind that it lacks is named, since it must not be sent to it.
    """
    if earlier == now:
        return []
    if isinstance(earlier, str) or isinstance(now, str) or earlier[0] != now[0]:
        return [f"{where} is now {json.dumps(now)}, and was {json.dumps(earlier)}"]
    match earlier[0]:
        case "array" | "map":
            return _differences_of_fields(earlier, now, where)
        case "union":
            return _differences_of_kinds(earlier[1], now[1], where)
        case "enum":
            return [f"{where} has the value {new}" for new in now[1] if new not in earlier[1]] + [
                f"{where} lacks the value {old}" for old in earlier[1] if old not in now[1]
            ]
        case "list" | "dict" | "tuple" if len(earlier) == len(now):
            return [
                sentence
                for old, new in zip(earlier[1:], now[1:], strict=True)
                for sentence in differences(old, new, f"{where}[]")
            ]
    return [f"{where} is now {json.dumps(now)}, and was {json.dumps(earlier)}"]


def _differences_of_fields(earlier: list[Any], now: list[Any], where: str) -> list[str]:
    found: list[str] = []
    if earlier[1:3] != now[1:3]:
        found.append(f"{where} has another tag")
    old, new = earlier[3], now[3]
    is_array = now[0] == "array"
    names = [field[0] for field in new]
    for place, (name, _, shape) in enumerate(old):
        if is_array and place < len(new):
            found += differences(shape, new[place][2], f"{where}.{name}")
        elif not is_array and name in names:
            found += differences(shape, new[names.index(name)][2], f"{where}.{name}")
        else:
            found.append(f"{where} lacks the field {name}")
    known = len(old) if is_array else [field[0] for field in old]
    added = new[known:] if is_array else [field for field in new if field[0] not in known]
    found += [f"{where}.{name} has no default" for name, required, _ in added if required]
    return found


def _differences_of_kinds(earlier: list[Shape], now: list[Shape], where: str) -> list[str]:
    old, new = ({_kind(shape): shape for shape in shapes} for shapes in (earlier, now))
    found = [f"{where} lacks the kind {kind}" for kind in old if kind not in new]
    for kind, shape in new.items():
        if kind in old:
            found += differences(old[kind], shape, f"{where}/{kind}")
        else:
            found.append(f"{where} has the kind {kind}")
    return found


def _kind(shape: Shape) -> str:
    """What tells the types of a union apart."""
    if isinstance(shape, str):
        return shape
    return str(shape[2]) if shape[0] in ("array", "map") else str(shape[0])


def _record(directory: Path) -> None:
    version = earlier_version()
    sources = earlier_sources(version, directory / "sources")
    assert sources is not None, f"Git has no {version}"
    sys.path.insert(0, str(sources))
    lines = [f"{json.dumps(name)}: {json.dumps(shape)}" for name, shape in shapes().items()]
    body = ",\n".join([f'"version": {json.dumps(version)}', *lines])
    RECORDED.write_text(f"{{\n{body}\n}}\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        _record(Path(directory))
