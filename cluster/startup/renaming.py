"""The names of nodes in the files of a stopped node, and how they are replaced by others.

A node's name is in the declarations of members, of queues' homes and mirrors, and in the end of the
log and the last view, by which nodes compare their logs. All are replaced alike, so nodes that are
told of the same new names still agree. Only this node's files change: nodes that run, or were not
told, learn the new name from the node itself when it starts (membership_changes.py).
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from leveret.broker.declarations.values import (
    Declaration,
    DeleteParameter,
    PutParameter,
    PutPlacement,
    PutQueue,
    PutQueueHome,
)
from leveret.broker.registry.objects.queues import QUEUE_HOME, QUEUE_MIRRORS
from leveret.broker.registry.stored import CLUSTER_LOG, CLUSTER_PROMISE, CLUSTER_VIEW
from leveret.broker.runtime.node_address import is_node_name
from leveret.cluster.membership.members import Members, MembershipRefused
from leveret.cluster.metadata.history import LastView, row_of, value_of
from leveret.cluster.metadata.member_records import CLUSTER_NODE
from leveret.cluster.metadata.messages import LogEntry, View, ViewId, ViewMember, ViewStart
from leveret.cluster.metadata.operations import decode_all, encode_all
from leveret.cluster.mirrors.record_changes import rename
from leveret.storage.metadata.metadata_rows import ParameterRow

Names = Mapping[str, str]
"""The new names of nodes, by their old ones."""


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
    rows: Iterable[ParameterRow], names: Names
) -> Iterator[tuple[ParameterRow, ParameterRow]]:
    """The rows that name nodes, each with the row that replaces it."""
    for row in rows:
        if row.component == CLUSTER_NODE:
            changed = row._replace(name=names.get(row.name, row.name))
        elif row.component == QUEUE_HOME:
            node, identity = json.loads(row.value)
            changed = row._replace(value=json.dumps([names.get(node, node), identity]))
        elif row.component == QUEUE_MIRRORS:
            record = rename(base64.b64decode(json.loads(row.value)), names)
            changed = row._replace(value=json.dumps(base64.b64encode(record).decode()))
        elif row.component == CLUSTER_VIEW:
            changed = row_of(row.component, row.name, _last_view(value_of(row, LastView), names))
        elif row.component == CLUSTER_PROMISE:
            changed = row_of(row.component, row.name, _view_id(value_of(row, ViewId), names))
        elif row.component == CLUSTER_LOG:
            changed = row_of(row.component, row.name, _entry(value_of(row, LogEntry), names))
        else:
            continue
        if changed != row:
            yield row, changed


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


def _entry(it: LogEntry, names: Names) -> LogEntry:
    origin = it.submission.origin
    payload = it.payload
    if not it.is_refused:
        payload = encode_all(_declaration(one, names) for one in decode_all(payload))
    return replace(
        it,
        view=_view_id(it.view, names),
        submission=replace(it.submission, origin=names.get(origin, origin)),
        payload=payload,
    )


def _declaration(it: Declaration, names: Names) -> Declaration:
    match it:
        case PutQueue():
            owner_node = names.get(it.owner_node, it.owner_node)
            return replace(
                it,
                node=names.get(it.node, it.node),
                owner_node=owner_node,
                mirrors=rename(it.mirrors, names),
            )
        case PutPlacement():
            return replace(
                it,
                node=names.get(it.node, it.node),
                record=rename(it.record, names),
                new_copy=names.get(it.new_copy, it.new_copy),
            )
        case PutQueueHome():
            return replace(it, node=names.get(it.node, it.node))
        case PutParameter(component=component) if component == CLUSTER_NODE:
            return replace(it, name=names.get(it.name, it.name))
        case DeleteParameter(component=component) if component == CLUSTER_NODE:
            return replace(it, name=names.get(it.name, it.name))
    return it
