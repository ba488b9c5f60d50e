"""New names in the files of a stopped node."""

import base64
import json

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import (
    DeleteParameter,
    PutPlacement,
    PutQueue,
    PutVhost,
    ReplaceQueue,
)
from leveret.broker.policies.parameters import NO_VHOST
from leveret.broker.registry.objects.queues import QUEUE_HOME, QUEUE_RECORD
from leveret.broker.registry.stored import CLUSTER_LOG, CLUSTER_PROMISE, CLUSTER_VIEW
from leveret.cluster.gm import group
from leveret.cluster.membership.members import MembershipRefused
from leveret.cluster.metadata.history import LastView, row_of, value_of
from leveret.cluster.metadata.member_records import CLUSTER_NODE, put_member
from leveret.cluster.metadata.messages import (
    LogEntry,
    SubmissionId,
    View,
    ViewId,
    ViewMember,
    ViewStart,
)
from leveret.cluster.metadata.operations import decode_all, encode_all
from leveret.cluster.mirrors import mirror_record
from leveret.cluster.mirrors.record_changes import encode
from leveret.cluster.replicated_queues import membership_record
from leveret.cluster.replicated_queues.membership_record import new_record
from leveret.cluster.startup.renaming import changed_rows, old_name
from leveret.storage.metadata.metadata_rows import Definitions, ParameterRow, QueueRow

MEMBERS = {"a@h": True, "b@h": True, "c@h": False}
NAMES = {"a": "x"}


def queue(name, kind="classic"):
    """A queue as the files have it. kind: its `x-queue-type`."""
    return QueueRow("/", name, True, False, 1, arguments(kind))


def arguments(kind):
    return encode_table({"x-queue-type": ("S", kind)})


def quorum_record(name):
    """The record of a quorum queue whose first member was on node `a` when it was made."""
    return membership_record.encode(new_record(("a", "b")).renamed({"a": name}))


def changed(*rows, queues=()):
    definitions = Definitions(parameters=list(rows), queues=list(queues))
    return [after for _, after in changed_rows(definitions, NAMES)]


def test_the_old_name_of_the_node_itself_is_the_one_that_becomes_its_own():
    assert old_name(MEMBERS, {"a@h": "x@h", "b@h": "y@h"}, "y@h") == "b@h"
    assert old_name(MEMBERS, {"a@h": "x@h"}, "b@h") == "b@h"


def test_names_may_be_exchanged():
    assert old_name(MEMBERS, {"a@h": "b@h", "b@h": "a@h"}, "a@h") == "b@h"


@pytest.mark.parametrize(
    ("names", "own", "reason"),
    [
        ({"a@h": "x@h", "b@h": "x@h"}, "x@h", "two nodes cannot both be called x@h"),
        ({"d@h": "x@h"}, "x@h", "not a member of this cluster: d@h"),
        ({"a@h": "b@h"}, "b@h", "already the name of a member: b@h"),
        ({"a@h": "x@h"}, "z@h", "none of these is the new name of this node, z@h"),
        ({"a@h": "x@h"}, "a@h", "none of these is the new name of this node, a@h"),
        ({"a@h": "x y@h"}, "x@h", "'x y@h' is not the name of a node"),
        ({"a@h": "x@h:25673"}, "x@h", "'x@h:25673' is not the name of a node"),
    ],
)
def test_names_that_cannot_be_given(names, own, reason):
    with pytest.raises(MembershipRefused, match=reason):
        old_name(MEMBERS, names, own)


def record_of(node):
    leader = group.Member(node, 1, 1)
    record = mirror_record.first("q", 7, leader)
    return encode(mirror_record.joined(record, group.Added(group.Member("b", 1, 1), leader)))


def test_mirrors_of_queues():
    def row(node):
        value = json.dumps(base64.b64encode(record_of(node)).decode())
        return ParameterRow("/", QUEUE_RECORD, "q", value)

    assert changed(row("a"), queues=[queue("q")]) == [row("x")]
    assert not changed(row("c"), queues=[queue("q")])


def test_members_of_quorum_queues():
    def row(record):
        value = json.dumps(base64.b64encode(membership_record.encode(record)).decode())
        return ParameterRow("/", QUEUE_RECORD, "q", value)

    record = new_record(("a", "b"))
    (renamed,) = changed(row(record), queues=[queue("q", "quorum")])
    assert renamed == row(record.renamed({"a": "x"}))
    assert [member.name for member in record.renamed({"a": "x"}).members] == ["a/1", "b/2"]


def test_members_of_queues_of_a_kind_that_is_not_known_cannot_be_renamed():
    row = ParameterRow("/", QUEUE_RECORD, "q", json.dumps(base64.b64encode(b"record").decode()))
    with pytest.raises(MembershipRefused, match="cannot rename the members of tree queues"):
        changed(row, queues=[queue("q", "tree")])


def test_members_and_homes_of_queues():
    assert changed(ParameterRow(NO_VHOST, CLUSTER_NODE, "a", "{}"))[0].name == "x"
    assert changed(ParameterRow("/", QUEUE_HOME, "a", '["a", 7]'))[0].value == '["x", 7]'
    assert not changed(ParameterRow(NO_VHOST, CLUSTER_NODE, "b", "{}"))
    assert not changed(ParameterRow("/", "policy", "a", '"a"'))


def test_the_last_view():
    def view(name):
        view_id = ViewId(3, name, 9)
        members = (ViewMember(name, 9), ViewMember("b", 8))
        starts, companions = (ViewStart(view_id, 5),), frozenset({name, "b"})
        return LastView(View(view_id, members), starts, 4, companions, takes_from=("b", name))

    (row,) = changed(row_of(CLUSTER_VIEW, "last", view("a")))
    assert value_of(row, LastView) == view("x")


def test_what_the_node_has_agreed_to():
    (row,) = changed(row_of(CLUSTER_PROMISE, "highest", ViewId(4, "a", 9)))
    assert value_of(row, ViewId) == ViewId(4, "x", 9)


def test_entries_of_the_log():
    def entry(name, *declarations):
        submission = SubmissionId(name, 9, 1)
        return LogEntry(ViewId(3, name, 9), 5, submission, encode_all(declarations))

    def declarations(name):
        return [
            PutQueue("/", "a", True, node=name),
            PutQueue("/", "m", True, node=name, identity=3, record=record_of(name)),
            PutPlacement("/", "m", 3, name, record_of(name), new_copy=name),
            # Of a queue that is declared now, and of one that is not, nor in the log.
            PutPlacement("/", "q", 7, name, record_of(name)),
            PutPlacement("/", "gone", 5, name, record_of("a")),
            # One that has its name, and its kind, from a conversion.
            ReplaceQueue("/", "m", 3, "next", 4, arguments("quorum"), name, quorum_record(name)),
            PutPlacement("/", "m", 4, name, quorum_record(name)),
            put_member(name, True),
            DeleteParameter(CLUSTER_NODE, NO_VHOST, name),
            PutVhost("a"),
        ]

    log = row_of(CLUSTER_LOG, "5", entry("a", *declarations("a")))
    home = ParameterRow("/", QUEUE_HOME, "q", '["b", 7]')
    (row,) = changed(log, home, queues=[queue("q")])
    found = value_of(row, LogEntry)
    assert found == entry("x", *declarations("x"))
    assert decode_all(found.payload) == declarations("x")


def test_the_reason_of_a_refusal_is_left_alone():
    refused = LogEntry(ViewId(3, "b", 9), 5, SubmissionId("a", 9, 1), b"a", is_refused=True)
    (row,) = changed(row_of(CLUSTER_LOG, "5", refused))
    assert value_of(row, LogEntry).payload == b"a"
