"""The names of nodes in the files of a stopped node, and how they are replaced by others.

A node's name is in the declarations of members, in the placements of queues, and in the end of the
log and the last view, by which nodes compare their logs. All are replaced alike, so nodes that are
told of the same new names still agree. Only this node's files change: nodes that run, or were not
told, learn the new name from the node itself when it starts (membership_changes.py).

A record of a placement is read by the kind of the queue (`RECORDS`). An entry of the log may change
the record of a queue that a later entry deletes, and whose kind is no longer known: that record
stays as it is.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from leveret.broker.amqp.field_table import decode_table
from leveret.broker.declarations.values import (
    Declaration,
    DeleteParameter,
    PutParameter,
    PutPlacement,
    PutQueue,
    PutQueueHome,
    ReplaceQueue,
)
from leveret.broker.queues.contract.queue_kind import CLASSIC, QUORUM, STREAM
from leveret.broker.queues.contract.queue_kinds import queue_type
from leveret.broker.registry.objects.queues import QUEUE_HOME, QUEUE_RECORD
from leveret.broker.registry.stored import CLUSTER_LOG, CLUSTER_PROMISE, CLUSTER_VIEW
from leveret.broker.runtime.node_address import is_node_name
from leveret.cluster.membership.members import Members, MembershipRefused
from leveret.cluster.metadata.history import LastView, row_of, value_of
from leveret.cluster.metadata.member_records import CLUSTER_NODE
from leveret.cluster.metadata.messages import LogEntry, View, ViewId, ViewMember, ViewStart
from leveret.cluster.metadata.operations import decode_all, encode_all
from leveret.cluster.mirrors import record_changes
from leveret.cluster.replicated_queues import membership_record
from leveret.storage.metadata.metadata_rows import Definitions, ParameterRow

Names = Mapping[str, str]
"""The new names of nodes, by their old ones."""

Place = tuple[str, str]
"""A queue: its vhost, and its name."""

RECORDS: dict[str, Callable[[bytes, Names], bytes]] = {
    CLASSIC: record_changes.rename,
    QUORUM: membership_record.rename,
    STREAM: membership_record.rename,
}
"""Functions that rename nodes in the record of a placement, by the kind of the queue."""


def old_name(members: Members, names: Names, own: str) -> str:
    """The old name of this node, if these new names can be given to members.

    own: its new name. Raises MembershipRefused.
    """
    new = list(names.values())
    for name in new:
        if not is_node_name(name):
            raise MembershipRefused(f"{name!r} is not the name of a node, such as rabbit@host1")
    if len(set(new)) < len(new):
        raise MembershipRefused(f"two nodes cannot both be called {_repeated(new)}")
    unknown = names.keys() - members.keys()
    if unknown:
        raise MembershipRefused(f"not a member of this cluster: {', '.join(sorted(unknown))}")
    taken = set(new) & (members.keys() - names.keys())
    if taken:
        raise MembershipRefused(f"already the name of a member: {', '.join(sorted(taken))}")
    for old, name in names.items():
        if name == own:
            return old
    if own not in members or own in names:
        raise MembershipRefused(
            f"none of these is the new name of this node, {own}: say it with --node"
        )
    return own


def _repeated(words: list[str]) -> str:
    return next(word for word in words if words.count(word) > 1)


def changed_rows(
    definitions: Definitions, names: Names
) -> Iterator[tuple[ParameterRow, ParameterRow]]:
    """The rows that name nodes, each with the row that replaces it. Raises MembershipRefused."""
    kinds = _Kinds(definitions)
    for row in definitions.parameters:
        changed = _changed(row, names, kinds)
        if changed != row:
            yield row, changed


class _Kinds:
    """The kinds of the queues that are declared, and of those that the log declares."""

    def __init__(self, definitions: Definitions) -> None:
        self._of_queues = {(row.vhost, row.name): row.arguments for row in definitions.queues}
        self._of_log: dict[tuple[Place, int], bytes] = {}
        self._identities: dict[Place, int] = {}
        for row in definitions.parameters:
            if row.component == QUEUE_HOME:
                self._identities[row.vhost, row.name] = json.loads(row.value)[1]
            elif row.component == CLUSTER_LOG:
                for it in _declarations(value_of(row, LogEntry)):
                    if isinstance(it, PutQueue):
                        self._of_log[(it.vhost, it.name), it.identity] = it.arguments
                    elif isinstance(it, ReplaceQueue):
                        self._of_log[(it.vhost, it.name), it.successor_identity] = it.arguments

    def renamed(
        self, place: Place, record: bytes, names: Names, identity: int | None = None
    ) -> bytes:
        """The record of a queue with new names. identity: that of its declaration, in the log."""
        if identity is None or identity == self._identities.get(place, 0):
            arguments = self._of_queues.get(place)
        else:
            arguments = self._of_log.get((place, identity))
        if arguments is None or not record:
            return record
        kind = queue_type(decode_table(arguments)[0])
        if kind not in RECORDS:
            raise MembershipRefused(
                f"this node cannot rename the members of {kind} queues, such as {place[1]!r}"
                f" in vhost {place[0]!r}"
            )
        return RECORDS[kind](record, names)


def _changed(row: ParameterRow, names: Names, kinds: _Kinds) -> ParameterRow:
    if row.component == CLUSTER_NODE:
        return row._replace(name=names.get(row.name, row.name))
    if row.component == QUEUE_HOME:
        node, identity = json.loads(row.value)
        return row._replace(value=json.dumps([names.get(node, node), identity]))
    if row.component == QUEUE_RECORD:
        before = base64.b64decode(json.loads(row.value))
        record = kinds.renamed((row.vhost, row.name), before, names)
        return row._replace(value=json.dumps(base64.b64encode(record).decode()))
    if row.component == CLUSTER_VIEW:
        return row_of(row.component, row.name, _last_view(value_of(row, LastView), names))
    if row.component == CLUSTER_PROMISE:
        return row_of(row.component, row.name, _view_id(value_of(row, ViewId), names))
    if row.component == CLUSTER_LOG:
        return row_of(row.component, row.name, _entry(value_of(row, LogEntry), names, kinds))
    return row


def _last_view(it: LastView, names: Names) -> LastView:
    return LastView(
        View(_view_id(it.view.id, names), tuple(_member(one, names) for one in it.view.members)),
        tuple(ViewStart(_view_id(one.view, names), one.first) for one in it.starts),
        it.base,
        frozenset(names.get(name, name) for name in it.companions),
        tuple(names.get(name, name) for name in it.takes_from),
    )


def _member(it: ViewMember, names: Names) -> ViewMember:
    return replace(it, name=names.get(it.name, it.name))


def _view_id(it: ViewId, names: Names) -> ViewId:
    return replace(it, coordinator=names.get(it.coordinator, it.coordinator))


def _declarations(it: LogEntry) -> Sequence[Declaration]:
    return () if it.is_refused else decode_all(it.payload)


def _entry(it: LogEntry, names: Names, kinds: _Kinds) -> LogEntry:
    origin = it.submission.origin
    payload = it.payload
    if not it.is_refused:
        payload = encode_all(_declaration(one, names, kinds) for one in decode_all(payload))
    return replace(
        it,
        view=_view_id(it.view, names),
        submission=replace(it.submission, origin=names.get(origin, origin)),
        payload=payload,
    )


def _declaration(it: Declaration, names: Names, kinds: _Kinds) -> Declaration:
    match it:
        case PutQueue():
            owner_node = names.get(it.owner_node, it.owner_node)
            return replace(
                it,
                node=names.get(it.node, it.node),
                owner_node=owner_node,
                record=kinds.renamed((it.vhost, it.name), it.record, names, it.identity),
            )
        case PutPlacement():
            return replace(
                it,
                node=names.get(it.node, it.node),
                record=kinds.renamed((it.vhost, it.name), it.record, names, it.identity),
                new_copy=names.get(it.new_copy, it.new_copy),
            )
        case ReplaceQueue():
            record = kinds.renamed((it.vhost, it.name), it.record, names, it.successor_identity)
            return replace(it, node=names.get(it.node, it.node), record=record)
        case PutQueueHome():
            return replace(it, node=names.get(it.node, it.node))
        case PutParameter(component=component) if component == CLUSTER_NODE:
            return replace(it, name=names.get(it.name, it.name))
        case DeleteParameter(component=component) if component == CLUSTER_NODE:
            return replace(it, name=names.get(it.name, it.name))
    return it
