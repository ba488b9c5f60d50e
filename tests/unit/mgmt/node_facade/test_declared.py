"""The declared objects of a node, by their names."""

import pytest

from leveret.broker.declarations.values import DeleteQueue, PutBinding, PutQueue
from leveret.mgmt.node_facade.declared import NO_COUNTS
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.testing import EmbeddedBroker
from tests.declaring import declare

NO_ARGUMENTS = bytes(4)


@pytest.fixture
async def embedded():
    async with EmbeddedBroker() as broker:
        declare(broker, *(PutQueue("/", name, False, False, NO_ARGUMENTS) for name in ("a", "b")))
        yield broker


@pytest.fixture
def facade(embedded):
    return NodeFacade(embedded.broker)


async def test_undeclared_objects_are_none_or_empty(facade):
    for vhost in ("/", "unknown"):
        assert facade.queue(vhost, "x") is facade.exchange(vhost, "x") is None
        assert facade.queue_counts((vhost, "x")) == NO_COUNTS
        assert [*facade.bindings_from(vhost, "x"), *facade.bindings_to_queue(vhost, "x")] == []
    assert facade.queue_names("unknown") == [*facade.own_counts("unknown")] == []
    assert facade.vhost("unknown") is None


async def test_a_list_has_the_queues_that_were_there_when_it_was_made(embedded, facade):
    listed = facade.own_statuses("/")
    declare(embedded, DeleteQueue("/", "b"), PutQueue("/", "c", False, False, NO_ARGUMENTS))
    assert [name for name, _ in listed] == ["a", "b"]
    assert facade.queue_names("/") == ["a", "c"]


async def test_a_binding_is_found_from_both_of_its_ends(embedded, facade):
    declare(embedded, PutBinding("/", "amq.direct", "a", "key", "queue", NO_ARGUMENTS))
    (binding,) = facade.bindings_from("/", "amq.direct")
    assert [*facade.bindings_to_queue("/", "a")] == [binding]
    assert facade.has_binding(binding)
    assert not facade.has_binding(binding._replace(routing_key="other"))
