"""Events and listeners: vhosts, users, permissions, parameters and alarms."""

from collections import Counter
from types import SimpleNamespace

import pytest

from leveret.broker.auth.users import with_hash, with_password
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import (
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteTopicPermission,
    DeleteUser,
    DeleteVhost,
    Permission,
    Policy,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutVhost,
    TopicPermission,
)
from leveret.broker.events.alarm_events import AlarmEvents
from leveret.broker.events.connection_events import connection_closed, login_failed, login_succeeded
from leveret.broker.events.events import Events
from leveret.broker.policies.parameters import GLOBAL, NO_VHOST, OPERATOR_POLICY, POLICY
from leveret.broker.registry.objects.vhosts import vhost_created, vhost_deleted, vhost_updated
from leveret.broker.resources.alarms import DISK, MEMORY, Alarms
from tests.declaring import Declared


class Owner:
    name = "1.2.3.4:5 -> 6.7.8.9:5672"

    def __init__(self):
        self.exclusive_queues = {}

    def forget_queue(self, name):
        """Ignore a deleted queue."""


@pytest.fixture
def events():
    return Events(lambda: 12.5, "rabbit@here")


@pytest.fixture
def heard(events):
    """The events, in order."""
    told = []
    events.listen(told.append)
    return told


@pytest.fixture
def vhost(events):
    return Declared(events=events).vhost("v")


def names(heard):
    return [event["event"] for event in heard]


def facts(event):
    """Return an event without name and time."""
    return {name: fact for name, fact in event.items() if name not in ("event", "timestamp_in_ms")}


class TestListeners:
    def test_every_listener_hears_it(self, events, heard):
        others = []
        events.listen(others.append)
        events.notify("queue.created", {"name": "q"})
        assert heard == others
        assert heard == [{"event": "queue.created", "timestamp_in_ms": 12500, "name": "q"}]

    def test_events_are_wanted_while_there_is_a_listener(self, events):
        told = []
        assert not events.are_wanted
        events.listen(told.append)
        assert events.are_wanted
        events.forget(told.append)
        assert not events.are_wanted
        events.forget(told.append)

    def test_a_listener_that_fails_is_told_no_more_and_spoils_nothing(self, events, heard, caplog):
        def fail(event):
            raise ValueError("no")

        events.listen(fail)
        events.notify("a", {})
        events.notify("b", {})
        assert names(heard) == ["a", "b"]
        assert caplog.text.count("an event listener failed on a") == 1

    def test_an_id_of_a_connection_has_its_name_without_spaces(self, events):
        assert events.pid("a:1 -> b:2 (3)") == "<rabbit@here.a:1->b:2(3)>"


class TestObjects:
    def test_nothing_is_told_without_a_listener(self, events, vhost):
        events.notify = pytest.fail
        source = vhost.declare_exchange("x", "direct", False, True, False, {})
        queue = vhost.declare_queue("q", False, False, {})
        vhost.bind(source, queue, "k", {})
        vhost.unbind(source, queue, "k", {})
        vhost.delete_queue(queue)
        vhost_created(vhost, "anna")
        vhost_updated(vhost, "anna")
        vhost_deleted(vhost, "anna")

    def test_an_exchange(self, vhost, heard):
        arguments = {"alternate-exchange": ("S", "other")}
        made = vhost.declare_exchange("x", "topic", True, False, True, arguments, "anna")
        vhost.delete_exchange(made, "bert")
        assert names(heard) == ["exchange.created", "exchange.deleted"]
        assert facts(heard[0]) == {
            "name": "x", "vhost": "v", "type": "topic", "durable": True, "auto_delete": False,
            "internal": True, "arguments": arguments, "policy": "",
            "user_who_performed_action": "anna",
        }  # fmt: skip
        assert facts(heard[1]) == {"name": "x", "vhost": "v", "user_who_performed_action": "bert"}

    def test_a_queue(self, vhost, heard):
        made = vhost.declare_queue("q", True, True, {"x-expires": ("I", 9)}, None, "anna")
        vhost.delete_queue(made, Requester("bert"))
        assert names(heard) == ["queue.created", "queue.deleted"]
        assert facts(heard[0]) == {
            "name": "q", "vhost": "v", "type": "rabbit_classic_queue", "durable": True,
            "auto_delete": True, "exclusive": False, "owner_pid": "",
            "arguments": {"x-expires": ("I", 9)}, "user_who_performed_action": "anna",
        }  # fmt: skip
        assert facts(heard[1]) == {
            "name": "q", "vhost": "v", "type": "rabbit_classic_queue",
            "user_who_performed_action": "bert",
        }  # fmt: skip

    def test_a_queue_is_deleted_once(self, vhost, heard):
        made = vhost.declare_queue("q", False, False, {})
        vhost.delete_queue(made)
        vhost.delete_queue(made)
        assert names(heard) == ["queue.created", "queue.deleted"]

    def test_an_exclusive_queue_names_its_connection(self, vhost, heard):
        vhost.declare_queue("q", False, False, {}, Owner())
        assert heard[0]["exclusive"]
        assert heard[0]["owner_pid"] == "<rabbit@here.1.2.3.4:5->6.7.8.9:5672>"

    def test_a_binding_is_told_once_however_often_it_is_made(self, vhost, heard):
        source, queue = vhost.exchanges["amq.topic"], vhost.declare_queue("q", False, False, {})
        for _ in range(2):
            vhost.bind(source, queue, "a.#", {"x": ("t", True)}, "anna")
        for _ in range(2):
            vhost.unbind(source, queue, "a.#", {"x": ("t", True)}, "bert")
        assert names(heard) == ["queue.created", "binding.created", "binding.deleted"]
        assert facts(heard[1]) == {
            "source_name": "amq.topic", "source_kind": "exchange", "destination_name": "q",
            "destination_kind": "queue", "routing_key": "a.#", "arguments": {"x": ("t", True)},
            "vhost": "v", "user_who_performed_action": "anna",
        }  # fmt: skip
        assert heard[2]["user_who_performed_action"] == "bert"

    def test_what_goes_with_a_queue_goes_by_the_nodes_own_doing(self, vhost, heard):
        source = vhost.declare_exchange("x", "fanout", False, True, False, {})
        queue = vhost.declare_queue("q", False, False, {})
        vhost.bind(source, queue, "", {})
        heard.clear()
        vhost.delete_queue(queue, Requester("anna"))
        assert [(event["event"], event["user_who_performed_action"]) for event in heard] == [
            ("binding.deleted", "rmq-internal"),
            ("exchange.deleted", "rmq-internal"),
            ("queue.deleted", "anna"),
        ]

    def test_a_vhost_and_all_that_is_in_it(self, vhost, heard):
        vhost.description, vhost.tags = "for tests", "a,b"
        vhost_created(vhost, "anna")
        assert names(heard) == ["exchange.created"] * 7 + ["vhost.created"]
        assert facts(heard[-1]) == {
            "name": "v", "description": "for tests", "tags": ["a", "b"], "tracing": False,
            "cluster_state": {"rabbit@here": "running"}, "user_who_performed_action": "anna",
        }  # fmt: skip
        source = vhost.declare_exchange("x", "fanout", False, False, False, {})
        queue = vhost.declare_queue("q", False, False, {})
        for destination in (queue, vhost.exchanges["amq.fanout"]):
            vhost.bind(source, destination, "", {})
        heard.clear()
        vhost.registry.apply(DeleteVhost("v", acting_user="bert"))
        assert names(heard)[:2] == ["binding.deleted", "queue.deleted"]
        assert Counter(names(heard)) == {
            "binding.deleted": 2, "queue.deleted": 1, "exchange.deleted": 8, "vhost.deleted": 1,
        }  # fmt: skip
        assert facts(heard[-1]) == {"name": "v", "user_who_performed_action": "bert"}


class Client:
    """A connection with the attributes that events use."""

    name, mechanism = "1.2.3.4:5 -> 6.7.8.9:5671", "EXTERNAL"
    protocol = "AMQP 0-9-1"
    own_host, own_port, peer_host, peer_port = "6.7.8.9", 5671, "1.2.3.4", 5

    def __init__(self, events, **tls):
        self.services = SimpleNamespace(events=events)
        self.client_properties = {}
        self.tls_facts = lambda: tls


class TestLogins:
    def test_known_facts_about_tls_are_told_and_unknown_ones_left_out(self, events, heard):
        client = Client(events, ssl=True, ssl_cipher="AES", ssl_hash="sha", peer_cert_subject=None)
        login_succeeded(client, "anna")
        assert facts(heard[0]) == {
            "connection_type": "network", "name": "anna", "auth_mechanism": "EXTERNAL",
            "connection_name": client.name, "host": "6.7.8.9", "peer_host": "1.2.3.4",
            "peer_port": 5, "protocol": "AMQP 0-9-1", "ssl": True, "ssl_cipher": "AES",
        }  # fmt: skip

    def test_a_failed_login_may_have_no_user_name(self, events, heard):
        login_failed(Client(events), None, "no certificate")
        assert heard[0]["event"] == "user.authentication.failure"
        assert heard[0]["error"] == "no certificate"
        assert "name" not in heard[0]

    @pytest.mark.parametrize("field", [("x", b"\xff"), ("F", {"a": ("S", "b")}), ("V", None)])
    def test_a_connection_name_that_is_no_text_is_none(self, events, heard, field):
        client = Client(events)
        client.client_properties["connection_name"] = field
        connection_closed(client)
        assert "user_provided_name" not in heard[0]
        assert heard[0]["pid"] == "<rabbit@here.1.2.3.4:5->6.7.8.9:5671>"


@pytest.fixture
def declared(events):
    return Declared(events=events)


class TestUsers:
    def test_a_life(self, declared, heard):
        declared.put(
            PutUser(with_password("anna", "secret", ["management"])),
            PutUser(with_hash("anna", b"hash", tags=["monitoring"]), acting_user="boss"),
            PutUser(with_password("anna", None, ["monitoring"])),
            DeleteUser("anna"),
            DeleteUser("anna"),
        )
        assert names(heard) == [
            "user.created", "user.tags.set", "user.password.changed", "user.tags.set",
            "user.password.cleared", "user.deleted",
        ]  # fmt: skip
        assert facts(heard[0]) == {"name": "anna", "user_who_performed_action": "rmq-internal"}
        assert [heard[place]["tags"] for place in (1, 3)] == [["management"], ["monitoring"]]
        assert heard[2]["user_who_performed_action"] == "boss"

    def test_nothing_secret_is_told(self, declared, heard):
        declared.put(PutUser(with_password("anna", "sesame")))
        declared.put(PutUser(with_hash("anna", b"hashed-sesame")))
        told = repr(heard)
        assert "sesame" not in told
        assert "hash" not in told

    def test_what_stays_as_it_is_is_not_told(self, declared, heard):
        declared.put(PutUser(with_hash("anna", b"hash", tags=["a"])))
        heard.clear()
        declared.put(PutUser(with_hash("anna", b"hash", tags=["a"])))
        assert not heard


class TestPermissions:
    def test_they_come_and_go(self, declared, heard):
        declared.put(
            PutPermission(Permission("v", "anna", "c", "w", "r")),
            DeletePermission("v", "anna"),
            DeletePermission("v", "anna"),
            PutTopicPermission(TopicPermission("v", "anna", "amq.topic", "w", "r")),
            DeleteTopicPermission("v", "anna", None),
            DeleteTopicPermission("v", "anna", None),
        )
        by = {"user_who_performed_action": "rmq-internal"}
        whose = {"user": "anna", "vhost": "v", **by}
        assert [(event["event"], facts(event)) for event in heard] == [
            ("permission.created", {**whose, "configure": "c", "write": "w", "read": "r"}),
            ("permission.deleted", whose),
            ("topic.permission.created",
             {**whose, "exchange": "amq.topic", "write": "w", "read": "r"}),
            ("topic.permission.deleted", whose),
        ]  # fmt: skip

    def test_those_in_a_vhost_go_with_it(self, declared, heard):
        for vhost in ("v", "w"):
            declared.put(
                PutVhost(vhost),
                PutPermission(Permission(vhost, "anna", "", "", "")),
                PutTopicPermission(TopicPermission(vhost, "anna", "amq.topic", "", "")),
            )
        heard.clear()
        declared.put(DeleteVhost("v", acting_user="boss"))
        told = [event for event in heard if "permission" in event["event"]]
        by = {"user": "anna", "vhost": "v", "user_who_performed_action": "boss"}
        assert [(event["event"], facts(event)) for event in told] == [
            ("permission.deleted", by),
            ("topic.permission.deleted", by),
        ]


class TestParameters:
    @pytest.fixture
    def alarms(self, events):
        self.alarms = Alarms()
        AlarmEvents(events, self.alarms)

    def test_a_policy(self, declared, heard):
        policy = Policy("v", "p", "^q", "queues", {"max-length": 3}, 1)
        declared.put(PutPolicy(POLICY, policy), DeletePolicy(POLICY, "v", "p"))
        assert names(heard) == ["policy.set", "policy.cleared"]
        assert facts(heard[0]) == {
            "name": "p", "vhost": "v", "pattern": "^q", "apply-to": "queues",
            "definition": {"max-length": 3}, "priority": 1,
            "user_who_performed_action": "rmq-internal",
        }  # fmt: skip
        assert (heard[1]["name"], heard[1]["vhost"]) == ("p", "v")

    def test_an_operator_policy_is_a_parameter_too(self, declared, heard):
        policy = Policy("v", "p", "^q", "queues", {"max-length": 3}, 0)
        declared.put(PutPolicy(OPERATOR_POLICY, policy), DeletePolicy(OPERATOR_POLICY, "v", "p"))
        assert names(heard) == [
            "parameter.set", "policy.set", "parameter.cleared", "operator.policy.cleared"
        ]  # fmt: skip
        assert heard[0]["value"]["definition"] == {"max-length": 3}

    def test_limits(self, declared, heard):
        limits, by = declared.registry.limits, {"acting_user": "boss"}
        declared.put(limits.with_vhost_limits("v", {"max-queues": 3}, **by))
        declared.put(limits.without_vhost_limit("v", "max-queues", **by))
        declared.put(limits.with_user_limits("anna", {"max-channels": 5}, **by))
        declared.put(limits.without_user_limit("anna", "max-channels", **by))
        assert names(heard) == [
            "parameter.set", "vhost.limits.set", "parameter.cleared", "vhost.limits.cleared",
            "user.limits.set", "user.limits.cleared",
        ]  # fmt: skip
        by = {"user_who_performed_action": "boss"}
        assert facts(heard[1]) == {"name": "limits", "vhost": "v", "max-queues": 3, **by}
        assert facts(heard[4]) == {"name": "limits", "username": "anna", "max-channels": 5, **by}
        assert facts(heard[5]) == {"name": "limits", "username": "anna", **by}

    @pytest.mark.parametrize("component", ["federation-upstream", "shovel"])
    def test_values_that_may_hold_a_password_are_not_told(self, declared, heard, component):
        value = {"uri": "amqp://user:sesame@host"}
        declared.put(PutParameter(component, "v", "up", value))
        declared.put(DeleteParameter(component, "v", "up"))
        assert names(heard) == ["parameter.set", "parameter.cleared"]
        assert (heard[0]["component"], heard[0]["vhost"]) == (component, "v")
        assert "sesame" not in repr(heard)

    def test_a_global_parameter_is_in_no_vhost(self, declared, heard):
        declared.put(PutParameter(GLOBAL, NO_VHOST, "cluster_name", "farm"))
        assert facts(heard[0]) == {
            "component": "global", "name": "cluster_name",
            "user_who_performed_action": "rmq-internal",
        }  # fmt: skip

    def test_alarms(self, alarms, heard):
        self.alarms.set(MEMORY)
        self.alarms.set(DISK, "monitor")
        self.alarms.set(DISK, "store")
        self.alarms.clear(DISK, "monitor")
        self.alarms.clear(MEMORY)
        self.alarms.clear(DISK, "store")
        assert [(event["event"], event["source"]) for event in heard] == [
            ("alarm.set", "memory"), ("alarm.set", "disk"),
            ("alarm.cleared", "memory"), ("alarm.cleared", "disk"),
        ]  # fmt: skip
        assert heard[0]["node"] == "rabbit@here"

    def test_an_alarm_of_before_is_not_new_to_a_late_listener(self, alarms, events):
        self.alarms.set(MEMORY)
        late = []
        events.listen(late.append)
        self.alarms.set(DISK)
        assert [event["source"] for event in late] == ["disk"]
