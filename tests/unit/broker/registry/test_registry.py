"""The registry: applying declarations to memory."""

import re
from itertools import pairwise, permutations

import pytest

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.auth.users import with_password
from leveret.broker.declarations.values import (
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    Permission,
    Policy,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
    TopicPermission,
)
from leveret.broker.policies.policy_keys import PolicyError
from tests.declaring import Declared, state_of

LIMIT = Policy("/", "limit", "^q", "queues", {"max-length": 5}, 0)
LOWER = Policy("/", "lower", "^q", "queues", {"max-length": 3, "expires": 60000}, 0)
OTHER = Policy("/", "other", "^e", "exchanges", {"alternate-exchange": "amq.fanout"}, 1)


@pytest.fixture
def declared():
    made = Declared()
    made.put(PutVhost("/"))
    return made


class TestOrder:
    """Whatever comes first, the result is the same."""

    @pytest.mark.parametrize(
        "declarations",
        list(permutations([
            PutPolicy("policy", LIMIT), PutPolicy("operator_policy", LOWER),
            PutPolicy("policy", OTHER), PutQueue("/", "q"), PutExchange("/", "e", "direct"),
        ])),
    )  # fmt: skip
    def test_policies_queues_and_exchanges(self, declared, declarations):
        for declaration in declarations:
            declared.put(declaration)
        queue = declared.registry.vhosts["/"].queues["q"]
        assert (queue.options.max_length, queue.options.expires_ms) == (3, 60000)
        assert (queue.policy, queue.operator_policy) == (LIMIT, LOWER)
        exchange = declared.registry.vhosts["/"].exchanges["e"]
        assert exchange.alternate_name == "amq.fanout"

    def test_a_policy_and_its_vhost(self, declared):
        other = Policy("v", "other", "", "exchanges", {"alternate-exchange": "amq.fanout"}, 1)
        declared.put(PutPolicy("policy", other))
        declared.put(PutVhost("v"))
        exchanges = declared.registry.vhosts["v"].exchanges.values()
        assert all(exchange.policy is other for exchange in exchanges)

    @pytest.mark.parametrize("listeners", list(permutations(["one", "two", "three"])))
    def test_listeners_of_events(self, declared, listeners):
        heard = {name: [] for name in listeners}
        for name in listeners:
            declared.events.listen(heard[name].append)
        declared.put(PutQueue("/", "q"), PutPolicy("policy", LIMIT), PutVhostLimits("/", {}))
        other = Declared()
        other.put(PutVhost("/"))
        other.put(PutVhostLimits("/", {}), PutPolicy("policy", LIMIT), PutQueue("/", "q"))
        assert state_of(declared.registry) == state_of(other.registry)
        told = [event["event"] for event in heard["one"]]
        assert told == ["queue.created", "policy.set", "parameter.set", "vhost.limits.set"]
        assert heard["one"] == heard["two"] == heard["three"]


class TestPolicies:
    def test_the_declared_policy_is_the_one_in_memory(self, declared):
        declared.put(PutPolicy("policy", LIMIT), PutQueue("/", "q"))
        assert declared.registry.policies.get("policy", "/", "limit") is LIMIT
        assert declared.registry.vhosts["/"].queues["q"].policy is LIMIT

    def test_of_equal_ones_the_first_declared_counts(self, declared):
        second = Policy("/", "second", "^q", "queues", {"max-length": 9}, 0)
        declared.put(PutPolicy("policy", LIMIT), PutPolicy("policy", second), PutQueue("/", "q"))
        changed = Policy("/", "limit", "^q", "queues", {"max-length": 6}, 0)
        declared.put(PutPolicy("policy", changed))
        assert declared.registry.vhosts["/"].queues["q"].options.max_length == 6

    def test_many_queues_get_them_in_slices(self):
        later = []
        declared = Declared(call_soon=later.append)
        declared.put(PutVhost("/"))
        declared.put(*(PutQueue("/", f"q{number}") for number in range(1200)))
        declared.put(PutPolicy("policy", LIMIT))
        queues = declared.registry.vhosts["/"].queues.values()
        counts = [sum(queue.policy is LIMIT for queue in queues)]
        while later:
            later.pop(0)()
            counts.append(sum(queue.policy is LIMIT for queue in queues))
        assert max(b - a for a, b in pairwise(counts)) <= 500
        assert counts[-1] == 1200


class TestDeleting:
    def test_a_vhost_goes_with_everything_in_it(self, declared):
        empty = state_of(Declared().registry)
        declared.put(
            PutQueue("/", "q"), PutExchange("/", "e", "topic"), PutPolicy("policy", LIMIT),
            PutPermission(Permission("/", "anna", "", "", "")), PutVhostLimits("/", {}),
            PutTopicPermission(TopicPermission("/", "anna", "e", "", "")),
            PutParameter("shovel", "/", "s", {}),
        )  # fmt: skip
        declared.put(PutBinding("/", "e", "q", "k"))
        queue = declared.registry.vhosts["/"].queues["q"]
        declared.put(DeleteVhost("/"))
        assert state_of(declared.registry) == empty
        assert queue.is_deleted
        assert declared.dependents.ended == [("connections to", "/"), ("traces of", "/")]

    def test_a_user_goes_with_permissions_limits_and_connections(self, declared):
        before = state_of(declared.registry)
        declared.put(
            PutUser(with_password("anna", "secret")),
            PutPermission(Permission("/", "anna", "", "", "")),
            PutTopicPermission(TopicPermission("/", "anna", "e", "", "")),
            PutUserLimits("anna", {"max-channels": 1}),
        )
        generation = declared.registry.vhosts["/"].generation
        declared.put(DeleteUser("anna"))
        assert state_of(declared.registry) == before
        assert declared.dependents.ended == [("connections of", "anna")]
        assert declared.registry.vhosts["/"].generation > generation

    def test_deleting_a_missing_object_succeeds(self, declared):
        heard, before = [], state_of(declared.registry)
        declared.events.listen(heard.append)
        declared.put(DeleteQueue("/", "q"), DeleteExchange("/", "e"), DeleteUser("nobody"))
        declared.put(DeleteVhost("other"))
        assert state_of(declared.registry) == before
        assert not heard


class TestChecks:
    """What makes no sense is refused before it is written, and changes nothing."""

    @pytest.mark.parametrize(
        ("declaration", "error", "text"),
        [
            (PutPermission(Permission("/", "anna", "(", "", "")), re.error, "missing )"),
            (PutPolicy("policy", Policy("/", "p", "(", "all", {"expires": 1}, 0)), PolicyError,
             "pattern should be regular expression"),
            (PutExchange("/", "e", "x-delayed-message"), ChannelFault, "'x-delayed-type' must be"),
            (PutExchange("/", "e", "x-nothing"), ConnectionFault, "unknown exchange type"),
            (PutQueue("other", "q"), ConnectionFault, "vhost other not found"),
            (PutBinding("/", "no", "q", "k"), ChannelFault, "no exchange 'no' in vhost '/'"),
            (PutBinding("/", "amq.direct", "q", "k"), ChannelFault, "no queue 'q' in vhost '/'"),
        ],
    )  # fmt: skip
    def test_a_refusal(self, declared, declaration, error, text):
        before = state_of(declared.registry)
        with pytest.raises(error, match=re.escape(text)):
            declared.put(PutQueue("/", "good"), declaration)
        assert state_of(declared.registry) == before

    def test_arguments_of_a_binding(self, declared):
        declared.put(PutQueue("/", "q"))
        bad = encode_table({"x-match": ("S", "some")})
        with pytest.raises(ChannelFault):
            declared.put(PutBinding("/", "amq.headers", "q", "", arguments=bad))
        assert not declared.registry.vhosts["/"].exchanges["amq.headers"].bindings


class TestSkipping:
    """A declaration that has become impossible is skipped and logged."""

    @pytest.mark.parametrize(
        ("declaration", "text"),
        [
            (PutBinding("/", "amq.direct", "gone", "k"), "source or destination does not exist"),
            (PutQueue("gone", "q"), "vhost 'gone' does not exist"),
        ],
    )
    def test_a_missing_object_is_logged(self, declared, caplog, declaration, text):
        before = state_of(declared.registry)
        declared.registry.apply(declaration)
        assert state_of(declared.registry) == before
        assert text in caplog.text

    def test_an_exclusive_queue_whose_connection_has_ended(self, declared):
        declared.registry.apply(PutQueue("/", "q", owner="1.2.3.4:5 -> 6.7.8.9:5672"))
        assert "q" not in declared.registry.vhosts["/"].queues

    def test_in_a_cluster_it_is_added_as_on_other_nodes_and_then_deleted(self, declared):
        vhost = declared.registry.vhosts["/"]
        vhost.kinds.node = "a@host"
        declared.put(PutQueue("/", "q", owner="1.2.3.4:5 -> 6.7.8.9:5672", owner_node="a@host"))
        assert vhost.queues["q"].is_exclusive
        declared.turns.end_round()
        assert not vhost.queues

    def test_the_owner_of_an_exclusive_queue_may_be_a_connection_of_another_node(self, declared):
        vhost = declared.registry.vhosts["/"]
        vhost.kinds.node = "a@host"
        declared.put(PutQueue("/", "q", owner="::1:5 -> ::1:5672", owner_node="b@host"))
        declared.turns.end_round()
        owner = vhost.queues["q"].owner_connection
        assert (owner.node, owner.peer_host, owner.peer_port) == ("b@host", "::1", 5)
