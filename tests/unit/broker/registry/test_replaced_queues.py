"""A queue whose name another one gets, as a declaration: completed, written, applied."""

import pytest
from msgspec.structs import replace

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.decided_replacements import (
    carrying_out,
    decided,
    decision,
    giving_up,
)
from leveret.broker.declarations.values import (
    DeleteQueue,
    Policy,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPolicy,
    PutQueue,
    PutVhost,
    ReplaceQueue,
)
from leveret.broker.registry import stored
from leveret.broker.registry.contents import changes, contents
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.names import SUCCESSOR_PREFIX
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.declaring import Declared
from tests.unit.broker.queues.fakes import FakeConsumer, publish, subscribed

NEXT = f"{SUCCESSOR_PREFIX}7"
ARGUMENTS = encode_table({"x-max-length": ("I", 9)})
REPLACE = ReplaceQueue("/", "q", 7, NEXT, 8, ARGUMENTS)


@pytest.fixture
def node(tmp_path):
    node = Declared(SqliteMetadata(tmp_path / "metadata.sqlite"))
    node.put(PutVhost("/"))
    node.put(
        PutExchange("/", "x", "direct", durable=True),
        PutQueue("/", "q", durable=True, node="a", identity=7),
        PutQueue("/", NEXT, durable=True, node="b", identity=8),
    )
    node.put(PutBinding("/", "x", "q", "key"))
    yield node
    node.metadata.close()


def declared_queue(declarations):
    (queue,) = [one for one in declarations if isinstance(one, PutQueue)]
    return queue


def test_the_other_queue_has_the_name_and_the_bindings(node):
    vhost = node.registry.vhosts["/"]
    before, successor = vhost.queues["q"], vhost.queues[NEXT]
    node.put(REPLACE)
    assert vhost.queues == {"q": successor}
    assert (before.is_deleted, successor.name) == (True, "q")
    assert (successor.declared.max_length, successor.options.max_length) == (9, 9)
    (binding,) = vhost.exchanges["x"].bindings.values()
    assert binding.destination is successor
    assert list(successor.bindings.values()) == [binding]
    node.put(DeleteQueue("/", "q"))
    assert not vhost.exchanges["x"].bindings


def test_a_restart_and_another_node_find_it_under_the_name(node):
    node.put(REPLACE)
    assert declared_queue(contents(node.registry)) == PutQueue(
        "/", "q", True, arguments=ARGUMENTS, node="b", identity=8
    )
    found = list(stored.declarations(node.metadata.load()))
    storage_id = node.registry.vhosts["/"].queues["q"].storage_id
    assert declared_queue(found) == PutQueue(
        "/", "q", True, arguments=ARGUMENTS, storage_id=storage_id, node="b", identity=8
    )
    assert [one.routing_key for one in found if isinstance(one, PutBinding)] == ["key"]


def test_policies_apply_to_it_when_it_has_the_name(node):
    node.put(PutPolicy("policy", Policy("/", "all", "", "all", {"max-length": 5}, 0)))
    successor = node.registry.vhosts["/"].queues[NEXT]
    publish(successor, *[b"%d" % number for number in range(20)])
    assert (successor.policy, successor.options.max_length) == (None, None)
    node.put(REPLACE)
    assert (successor.policy.name, successor.options.max_length) == ("all", 5)


def test_consumers_of_a_node_that_did_not_hold_it_are_told(node):
    consumer = subscribed(node.registry.vhosts["/"].queues["q"], FakeConsumer())
    node.put(REPLACE)
    assert (consumer.is_without_queue, consumer.was_told) == (True, True)


def test_a_decided_replacement_is_made_once(node):
    node.put(decision(REPLACE))
    put = next(one for one in contents(node.registry) if isinstance(one, PutParameter))
    assert list(decided([put.value])) == [REPLACE]
    node.put(*carrying_out(REPLACE))
    assert list(node.registry.vhosts["/"].queues) == ["q"]
    assert not any(isinstance(one, PutParameter) for one in contents(node.registry))
    with pytest.raises(RequirementError):
        node.put(*carrying_out(REPLACE))


def test_a_node_that_has_missed_it_keeps_what_it_has_of_the_successor(node):
    mine = list(contents(node.registry))
    node.put(REPLACE)
    assert changes(mine, contents(node.registry)) == [replace(REPLACE, node="b")]


def test_a_node_without_the_successor_declares_the_queue_that_has_the_name(node):
    mine = [one for one in contents(node.registry) if getattr(one, "name", "") != NEXT]
    node.put(REPLACE)
    gone, put, *_ = changes(mine, contents(node.registry))
    assert (gone, put) == (DeleteQueue("/", "q"), declared_queue(contents(node.registry)))


def test_a_node_that_has_made_it_before_the_others_keeps_the_queue(node):
    node.put(decision(REPLACE))
    theirs = list(contents(node.registry))
    node.put(REPLACE)
    assert changes(contents(node.registry), theirs) == []
    successor = node.registry.vhosts["/"].queues["q"]
    node.put(*carrying_out(REPLACE))
    assert node.registry.vhosts["/"].queues == {"q": successor}


def test_a_node_that_has_made_it_gives_way_if_it_is_not_decided(node):
    theirs = list(contents(node.registry))
    node.put(REPLACE)
    gone, *put = changes(contents(node.registry), theirs)
    assert gone == DeleteQueue("/", "q")
    assert [one.name for one in put if isinstance(one, PutQueue)] == ["q", NEXT]


def test_a_queue_that_is_to_replace_another_one_is_not_deleted(node):
    node.put(decision(REPLACE))
    with pytest.raises(ChannelFault, match="is just getting the name of another queue"):
        node.put(DeleteQueue("/", NEXT))
    node.put(giving_up(REPLACE))
    node.put(DeleteQueue("/", NEXT))


def test_a_decision_that_is_given_up_is_forgotten(node):
    node.put(decision(REPLACE))
    node.put(giving_up(REPLACE))
    assert sorted(node.registry.vhosts["/"].queues) == [NEXT, "q"]
    with pytest.raises(RequirementError):
        node.put(*carrying_out(REPLACE))


@pytest.mark.parametrize("name", ["q", NEXT])
def test_it_is_refused_if_one_of_them_was_deleted(node, name):
    node.put(DeleteQueue("/", name))
    node.put(PutQueue("/", name, durable=True, node="a", identity=9))
    with pytest.raises(ChannelFault, match=f"queue '{name}' in vhost '/' was deleted"):
        node.put(REPLACE)
