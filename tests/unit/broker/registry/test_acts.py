"""What the audit says of declarations: RabbitMQ's sentences, and which are told of."""

from typing import get_args

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.auth.users import with_hash
from leveret.broker.declarations.requester import AMQP, CONTROL, DEFINITIONS, HTTP, NODE, Requester
from leveret.broker.declarations.values import (
    AnyDeclaration,
    ChangePlacement,
    DeleteBinding,
    DeleteExchange,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimits,
    DeleteVhost,
    DeleteVhostLimits,
    Permission,
    Policy,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPlacement,
    PutPolicy,
    PutQueue,
    PutQueueHome,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
    ReplaceQueue,
    RequireParameter,
    TopicPermission,
)
from tests.declaring import Declared

QUORUM = encode_table({"x-queue-type": ("S", "quorum")})
POLICY = Policy("/", "ttl", "^t", "queues", {"message-ttl": 9}, 0)
SAID = (
    (PutVhost("v"), "Adding vhost 'v' without a description"),
    (PutVhost("w", "west", "a,b"), "Adding vhost 'w' (description: 'west', tags: [a,b])"),
    (PutVhost("/", "root"), "Updating vhost '/' (description: 'root', tags: [])"),
    (PutUser(with_hash("ann", b"hash", tags=["monitoring"])), "Created user 'ann'",
     "Successfully set user tags for user 'ann' to [monitoring]"),
    (PutUser(with_hash("old", b"new")), "Successfully changed password for user 'old'"),
    (PutUser(with_hash("old", b"")), "Clearing password for user 'old'"),
    (PutUser(with_hash("old", b"hash", tags=["management", "policymaker"])),
     "Successfully set user tags for user 'old' to [management,policymaker]"),
    (PutPermission(Permission("/", "old", "a", "b", "c")),
     "Successfully set permissions for user 'old' in virtual host '/' to 'a', 'b', 'c'"),
    (DeletePermission("/", "old"),
     "Successfully cleared permissions for user 'old' in virtual host '/'"),
    (PutTopicPermission(TopicPermission("/", "old", "amq.topic", "b", "c")),
     "Successfully set topic permissions on exchange 'amq.topic' for user 'old' in virtual host "
     "'/' to 'b', 'c'"),
    (DeleteTopicPermission("/", "old", None),
     "Successfully cleared topic permissions for user 'old' in virtual host '/'"),
    (DeleteTopicPermission("/", "old", "x"),
     "Successfully cleared topic permissions on exchange 'x' for user 'old' in virtual host '/'"),
    (PutPolicy("policy", POLICY),
     "Successfully set policy 'ttl' matching queues names in virtual host '/' using pattern '^t'"),
    (PutPolicy("operator_policy", POLICY),
     "Successfully set operator policy 'ttl' matching queues names in virtual host '/' using "
     "pattern '^t'"),
    (DeletePolicy("policy", "/", "ttl"), "Successfully cleared policy 'ttl' in virtual host '/'"),
    (PutVhostLimits("/", {"max-queues": 7}),
     "Successfully set limits of virtual host '/' to max-queues = 7"),
    (DeleteVhostLimits("/"), "Successfully cleared limits of virtual host '/'"),
    (PutUserLimits("old", {"max-channels": 7}),
     "Successfully set limits of user 'old' to max-channels = 7"),
    (DeleteUserLimits("old"), "Successfully cleared limits of user 'old'"),
    (PutParameter("federation-upstream", "/", "up", {"uri": "amqp://u:secret@there"}),
     "Successfully set runtime parameter 'up' of component 'federation-upstream' in virtual host "
     "'/'"),
    (PutParameter("global", "", "cluster_name", "hares"),
     "Successfully set global parameter 'cluster_name'"),
    (DeleteParameter("global", "", "cluster_name"),
     "Successfully cleared global parameter 'cluster_name'"),
    (PutExchange("/", "y", "topic"), "Declared exchange 'y' in vhost '/' of type 'topic'"),
    (DeleteExchange("/", "x"), "Deleted exchange 'x' in vhost '/'"),
    (PutQueue("/", "p"), "Declared queue 'p' in vhost '/'"),
    (DeleteQueue("/", "q"), "Deleted queue 'q' in vhost '/' with 0 messages"),
    (PutQueueHome("/", "q", "rabbit@two", 0), "Moved queue 'q' in vhost '/' to node 'rabbit@two'"),
    (PutPlacement("/", "q", 0, "rabbit@two", b"record"),
     "Changed the members of queue 'q' in vhost '/', which is led by node 'rabbit@two'"),
    (ReplaceQueue("/", "q", 0, "brief", 0, QUORUM),
     "Converted queue 'q' in vhost '/' to a quorum queue"),
    # It is told when it has been made one of the above.
    (ChangePlacement("/", "q", 0, b"change"),),
    (PutBinding("/", "x", "q", "key"),
     "Bound queue 'q' to exchange 'x' in vhost '/' with routing key 'key'"),
    (DeleteBinding("/", "x", "q", "bound"),
     "Unbound queue 'q' from exchange 'x' in vhost '/' with routing key 'bound'"),
    (DeleteUser("old"), "Deleted user 'old'"),
    (DeleteVhost("/"), "Deleting vhost '/'"),
)  # fmt: skip
IN_VHOST = (
    PutExchange, DeleteExchange, PutQueue, DeleteQueue, PutQueueHome, PutPlacement,
    ChangePlacement, ReplaceQueue, PutBinding, DeleteBinding,
)  # fmt: skip


@pytest.fixture
def declared():
    declared = Declared()
    declared.put(PutVhost("/"))
    declared.put(PutUser(with_hash("old", b"hash")))
    declared.put(PutExchange("/", "x", "direct", durable=True), PutQueue("/", "q", durable=True))
    declared.put(PutExchange("/", "passing", "direct"), PutQueue("/", "brief"))
    declared.put(PutBinding("/", "x", "q", "bound"))
    return declared


def told(declared, way, *declarations):
    """Submit declarations; return what the audit is told of them."""
    acts = []
    declared.audit.listen(lambda requester, act: acts.append((requester.way, act)))
    declared.log.submit(*declarations, requester=Requester("boss", "here", way)).result()
    assert all(one_way == way for one_way, _ in acts)
    return [act.text for _, act in acts]


@pytest.mark.parametrize("way", [HTTP, CONTROL])
@pytest.mark.parametrize(("declaration", "text"), [(one[0], one[1:]) for one in SAID])
def test_what_an_operator_declares(declared, way, declaration, text):
    assert told(declared, way, declaration) == list(text)


def test_every_kind_of_declaration_is_described():
    changes_nothing = {RequireParameter}
    assert {type(one[0]) for one in SAID} == set(get_args(AnyDeclaration)) - changes_nothing


@pytest.mark.parametrize("declaration", [
    PutExchange("/", "y", "topic", durable=True), PutQueue("/", "p", durable=True),
    PutBinding("/", "x", "q", "key"), DeleteBinding("/", "x", "q", "bound"),
    DeleteQueue("/", "brief"), DeleteExchange("/", "passing"),
])  # fmt: skip
def test_what_programs_declare_all_the_time_is_not_told(declared, declaration):
    assert told(declared, AMQP, declaration) == []


@pytest.mark.parametrize("declaration", [DeleteQueue("/", "q"), DeleteExchange("/", "x")])
def test_the_deletion_of_a_durable_object_by_a_program_is_reported(declared, declaration):
    assert len(told(declared, AMQP, declaration)) == 1


@pytest.mark.parametrize("declaration", [one[0] for one in SAID])
def test_an_import_is_told_of_without_its_queues_exchanges_and_bindings(declared, declaration):
    is_told = told(declared, DEFINITIONS, declaration) != []
    assert is_told != isinstance(declaration, IN_VHOST)


@pytest.mark.parametrize("declaration", [one[0] for one in SAID])
def test_what_the_node_does_itself_is_not_told(declared, declaration):
    assert told(declared, NODE, declaration) == []


def test_what_exists_already_is_not_told(declared):
    assert told(declared, HTTP, PutQueue("/", "q", durable=True)) == []
