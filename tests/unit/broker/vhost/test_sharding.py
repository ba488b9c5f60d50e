"""Which shards a node lacks, and what policies may ask for."""

import pytest

from leveret.broker.declarations.values import DeleteBinding, Policy, PutBinding, PutQueue
from leveret.broker.policies.parameters import POLICY
from leveret.broker.policies.policy_keys import PolicyError, check_definition
from leveret.broker.policies.policy_table import PolicyTable
from leveret.broker.vhost.sharding import (
    Sharding,
    least_consumed,
    missing_bindings,
    missing_queues,
    obsolete_bindings,
    shard_name,
)
from tests.declaring import Declared
from tests.turns_by_hand import TurnsByHand

NODE = "rabbit@a"
SHARDS = [f"sharding: x - rabbit@a - {number}" for number in range(3)]


def policy(**keys):
    definition = {key.replace("_", "-"): value for key, value in keys.items()}
    return Policy("/", "shards", "^x$", "exchanges", definition, 0)


@pytest.fixture
def vhost():
    return Declared(turns=TurnsByHand()).vhost()


@pytest.fixture
def exchange(vhost):
    exchange = vhost.add_exchange("x", "x-modulus-hash", True, False, False, {})
    exchange.policy = policy(shards_per_node=2, routing_key="1")
    return exchange


def add_queue(vhost, name):
    vhost.add_queue(vhost.kinds.specify(vhost.name, name, {}, durable=True))


def test_a_node_lacks_the_queues_that_do_not_exist(vhost, exchange):
    add_queue(vhost, SHARDS[0])
    (missing,) = missing_queues(vhost, exchange, NODE)
    assert isinstance(missing, PutQueue)
    assert (missing.name, missing.durable) == (SHARDS[1], True)


def test_queues_are_bound_when_they_exist_with_the_key_of_the_policy(vhost, exchange):
    add_queue(vhost, SHARDS[1])
    (missing,) = missing_bindings(vhost, exchange, NODE)
    assert isinstance(missing, PutBinding)
    assert (missing.source, missing.destination, missing.routing_key) == ("x", SHARDS[1], "1")


def test_an_exchange_without_such_a_policy_lacks_nothing(vhost, exchange):
    for exchange.policy in (None, policy(alternate_exchange="y")):
        assert missing_queues(vhost, exchange, NODE) == []
        assert missing_bindings(vhost, exchange, NODE) == []


def test_the_default_exchange_is_not_sharded(vhost, exchange):
    default = vhost.exchanges[""]
    default.policy = exchange.policy
    assert missing_queues(vhost, default, NODE) == []


@pytest.mark.parametrize("now", [None, policy(shards_per_node=1, routing_key="2")])
def test_bindings_with_the_key_of_an_earlier_policy_are_deleted(vhost, exchange, now):
    add_queue(vhost, SHARDS[0])
    vhost.bind(exchange, vhost.queues[SHARDS[0]], "1", {})
    exchange.policy = now
    (obsolete,) = obsolete_bindings(vhost, exchange, NODE, Sharding(2, "1"))
    assert isinstance(obsolete, DeleteBinding)
    assert (obsolete.destination, obsolete.routing_key) == (SHARDS[0], "1")


def test_no_binding_is_deleted_when_the_number_is_lowered(vhost, exchange):
    add_queue(vhost, SHARDS[1])
    vhost.bind(exchange, vhost.queues[SHARDS[1]], "1", {})
    exchange.policy = policy(shards_per_node=1, routing_key="1")
    assert obsolete_bindings(vhost, exchange, NODE, Sharding(2, "1")) == []


def test_of_shards_with_as_many_consumers_the_first_by_name_is_chosen(vhost, exchange):
    assert least_consumed(vhost, "x", NODE) is None
    add_queue(vhost, SHARDS[1])
    assert least_consumed(vhost, "x", NODE) == SHARDS[1]
    add_queue(vhost, SHARDS[0])
    assert least_consumed(vhost, "x", NODE) == shard_name("x", NODE, 0)


def test_the_table_knows_which_vhosts_have_such_policies():
    table = PolicyTable()
    table.put(POLICY, policy(shards_per_node=1))
    assert table.sharded_vhosts == {"/"}
    table.put(POLICY, policy(alternate_exchange="y"))
    assert table.sharded_vhosts == set()
    table.put(POLICY, policy(shards_per_node=1))
    table.remove(POLICY, "/", "shards")
    assert table.sharded_vhosts == set()


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"routing-key": "1"}, "shards-per-node must be specified"),
        (
            {"shards-per-node": -1},
            "shards-per-node should be greater than 0, actually was -1",
        ),
        (
            {"shards-per-node": 1001},
            "shards-per-node should be at most 1000, actually was 1001",
        ),
        (
            {"shards-per-node": "two"},
            'shards-per-node should be a number, actually was <<"two">>',
        ),
        (
            {"shards-per-node": 2, "routing-key": 1},
            "routing-key should be binary, actually was 1",
        ),
    ],
)
def test_policies_that_make_no_sense_are_refused(definition, text):
    with pytest.raises(PolicyError) as refused:
        check_definition("shards", definition, is_operator=False, may_lift_limits=False)
    assert str(refused.value) == text


def test_policies_with_and_without_a_routing_key_are_accepted():
    check_definition("shards", {"shards-per-node": 0}, is_operator=False, may_lift_limits=False)
    check_definition(
        "shards",
        {"shards-per-node": 2, "routing-key": ""},
        is_operator=False,
        may_lift_limits=False,
    )
