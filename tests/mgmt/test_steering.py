"""Operators' changes affect running objects: policies, limits, permissions, definitions."""

import json

import pika
import pytest

from tests.patience import PATIENCE_SECONDS


def queue(node, vhost, name):
    return node.get(f"queues/{vhost}/{name}")


def policy(node, vhost, name, definition, kind="policies", **fields):
    body = {"pattern": ".*", "definition": definition, "apply-to": "queues", **fields}
    answer = node.put(f"{kind}/{vhost}/{name}", body)
    assert answer.status in (201, 204), answer


class TestPolicies:
    def test_a_limit_counts_at_once_and_ends_with_its_policy(self, node, vhost):
        node.put(f"queues/{vhost}/q", {"durable": True})
        for number in range(5):
            node.publish(vhost, "q", str(number))
        policy(node, vhost, "short", {"max-length": 2})
        assert queue(node, vhost, "q")["messages"] == 2
        assert queue(node, vhost, "q")["policy"] == "short"
        node.delete(f"policies/{vhost}/short")
        for number in range(5):
            node.publish(vhost, "q", str(number))
        assert queue(node, vhost, "q")["messages"] == 7

    def test_the_lower_of_two_limits_wins_and_the_argument_counts_too(self, node, vhost):
        node.put(f"queues/{vhost}/q", {"durable": True, "arguments": {"x-max-length": 4}})
        policy(node, vhost, "long", {"max-length": 10})
        for number in range(12):
            node.publish(vhost, "q", str(number))
        assert queue(node, vhost, "q")["messages"] == 4
        policy(node, vhost, "op", {"max-length": 3}, kind="operator-policies")
        shown = queue(node, vhost, "q")
        assert shown["messages"] == 3
        assert shown["operator_policy"] == "op"
        assert shown["effective_policy_definition"] == {"max-length": 3}

    def test_of_two_policies_the_one_with_the_higher_priority_counts(self, node, vhost):
        policy(node, vhost, "low", {"max-length": 5}, priority=1)
        policy(node, vhost, "high", {"max-length": 1}, priority=2)
        node.put(f"queues/{vhost}/q", {"durable": True})
        assert queue(node, vhost, "q")["policy"] == "high"
        node.delete(f"policies/{vhost}/high")
        assert queue(node, vhost, "q")["policy"] == "low"

    def test_a_time_to_live_and_a_dead_letter_exchange(self, node, vhost):
        node.put(f"queues/{vhost}/dead", {"durable": True})
        node.put(f"queues/{vhost}/work", {"durable": True})
        definition = {"message-ttl": 1, "dead-letter-exchange": "",
                      "dead-letter-routing-key": "dead"}  # fmt: skip
        policy(node, vhost, "dying", definition, pattern="^work$")
        node.publish(vhost, "work", "mortal")
        node.wait_until(lambda: queue(node, vhost, "dead")["messages"] == 1, "it is dead")

    def test_an_unused_queue_goes_when_a_policy_says_so(self, node, vhost):
        node.put(f"queues/{vhost}/idle", {"durable": True})
        policy(node, vhost, "expiring", {"expires": 50})
        node.wait_until(
            lambda: node.request("GET", f"queues/{vhost}/idle").status == 404, "it is gone"
        )

    def test_an_alternate_exchange(self, node, vhost):
        node.put(f"queues/{vhost}/rest", {"durable": True})
        node.post(f"bindings/{vhost}/e/amq.fanout/q/rest", {})
        node.put(f"exchanges/{vhost}/main", {"type": "direct", "durable": True})
        policy(node, vhost, "alternate", {"alternate-exchange": "amq.fanout"},
               **{"apply-to": "exchanges", "pattern": "^main$"})  # fmt: skip
        assert node.publish(vhost, "nowhere", "caught", exchange="main")
        assert queue(node, vhost, "rest")["messages"] == 1

    def test_a_queue_becomes_lazy(self, node, vhost):
        node.put(f"queues/{vhost}/q", {"durable": True})
        policy(node, vhost, "lazy", {"queue-mode": "lazy"})
        assert queue(node, vhost, "q")["backing_queue_status"]["mode"] == "lazy"

    def test_rejecting_when_full(self, node, vhost, channel):
        channel.queue_declare("q")
        policy(node, vhost, "full", {"max-length": 1, "overflow": "reject-publish"})
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"1")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "q", b"2")


class TestLimits:
    def test_queues_of_a_vhost(self, node, vhost, channel):
        node.put(f"vhost-limits/{vhost}/max-queues", {"value": 1})
        channel.queue_declare("one")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("two")
        assert caught.value.reply_code == 406
        assert caught.value.reply_text == (
            f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{vhost}' "
            "(1) is reached"
        )

    def test_connections_to_a_vhost(self, node, vhost, channel):
        node.put(f"vhost-limits/{vhost}/max-connections", {"value": 1})
        refused = pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="is reached")
        with refused:
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, vhost))

    def test_connections_and_channels_of_a_user(self, node, vhost):
        user = f"{vhost}u"
        node.put(f"users/{user}", {"password": "p", "tags": ""})
        node.put(f"permissions/{vhost}/{user}", {"configure": "", "write": "", "read": ""})
        node.put(f"user-limits/{user}/max-connections", {"value": 1})
        node.put(f"user-limits/{user}/max-channels", {"value": 1})
        parameters = pika.ConnectionParameters(
            "127.0.0.1", node.port, vhost, credentials=pika.PlainCredentials(user, "p")
        )
        first = pika.BlockingConnection(parameters)
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
            pika.BlockingConnection(parameters)
        assert f"connection refused for user '{user}': user connection limit (1)" in str(
            caught.value
        )
        first.channel()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user limit of"):
            first.channel()
        node.delete(f"users/{user}")


def test_a_deleted_user_is_disconnected(node, vhost):
    user = f"{vhost}gone"
    node.put(f"users/{user}", {"password": "p", "tags": ""})
    node.put(f"permissions/{vhost}/{user}", {"configure": "", "write": "", "read": ""})
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", node.port, vhost, credentials=pika.PlainCredentials(user, "p")
        )
    )
    node.delete(f"users/{user}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=f"user '{user}' is deleted"):
        connection.process_data_events(PATIENCE_SECONDS)


class TestDefinitions:
    def test_an_export_can_be_imported(self, node, vhost):
        node.put(f"queues/{vhost}/q", {"durable": True, "arguments": {"x-max-length": 5}})
        node.put(f"exchanges/{vhost}/x", {"type": "topic", "durable": True})
        node.post(f"bindings/{vhost}/e/x/q/q", {"routing_key": "a", "arguments": {"k": 1}})
        policy(node, vhost, "p", {"max-length": 3})
        exported = node.get(f"definitions/{vhost}")
        whole = node.get("definitions")
        node.delete(f"vhosts/{vhost}")
        wanted = {"vhosts": [{"name": vhost}], "permissions": whole["permissions"]}
        assert node.post("definitions", wanted).status == 204
        assert node.post(f"definitions/{vhost}", exported).status == 204
        assert node.get(f"definitions/{vhost}") == exported

    def test_a_dry_run_tells_what_would_change_and_changes_nothing(self, node, vhost):
        node.put(f"queues/{vhost}/same", {"durable": True})
        node.put(f"queues/{vhost}/other", {"durable": True, "arguments": {"x-max-length": 1}})
        plain = {"vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
        wanted = {
            "queues": [{"name": name, **plain} for name in ("same", "other", "new")],
            "policies": [{"vhost": vhost, "name": "p", "pattern": "a", "apply-to": "all",
                          "definition": {"max-length": 1}, "priority": 0}],
        }  # fmt: skip
        found = node.post("definitions?dry_run=true", wanted).body
        assert found["unchanged"] == 1
        actions = {
            (change["action"], change["kind"], change["name"]) for change in found["changes"]
        }
        assert actions == {("add", "queue", "new"), ("add", "policy", "p"),
                           ("conflict", "queue", "other")}  # fmt: skip
        assert node.request("GET", f"queues/{vhost}/new").status == 404


class TestPlans:
    def test_what_a_declaration_would_come_to(self, node, vhost):
        plan = f"queues/{vhost}/q/plan"
        assert node.post(plan, {"durable": True}).body["outcome"] == "create"
        node.put(f"queues/{vhost}/q", {"durable": True})
        assert node.post(plan, {"durable": True}).body["outcome"] == "same"
        found = node.post(plan, {"durable": False, "arguments": {"x-expires": 5}}).body
        assert found["outcome"] == "conflict"
        assert "inequivalent arg 'durable'" in found["reason"]
        assert {one["argument"] for one in found["differences"]} == {"durable", "x-expires"}

    def test_what_refuses_a_declaration_is_told(self, node, vhost):
        found = node.post(f"queues/{vhost}/amq.mine/plan", {}).body
        assert (found["outcome"], found["effective"]) == ("conflict", {})
        assert found["reason"] == (
            "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
        )
        wanted = {"arguments": {"alternate-exchange": 7}}
        reason = node.post(f"exchanges/{vhost}/x/plan", wanted).body["reason"]
        assert "invalid type 'long' for arg 'alternate-exchange'" in reason

    @pytest.mark.parametrize("kind", ["queue", "exchange"])
    def test_a_name_that_is_too_long_is_refused_as_by_the_declaration(self, node, vhost, kind):
        path = f"{kind}s/{vhost}/{'n' * 256}"
        refused = node.put(path, {})
        assert f"{kind} should be less than 255 bytes, actually was 256" in refused.body["reason"]
        planned = node.post(f"{path}/plan", {})
        assert (planned.status, planned.body) == (refused.status, refused.body)

    def test_exchanges_and_policies(self, node, vhost):
        policy(node, vhost, "p", {"max-length": 3})
        found = node.post(f"queues/{vhost}/new/plan", {"arguments": {"x-max-length": 9}}).body
        assert (found["policy"], found["effective"]["max_length"]) == ("p", 3)
        assert node.post(f"exchanges/{vhost}/amq.topic/plan", {"type": "direct"}).body[
            "outcome"
        ] == ("conflict")
        assert node.post(f"exchanges/{vhost}/x/plan", {"type": "topic"}).body["outcome"] == (
            "create"
        )


def target(number):
    """Where a message of the test was published."""
    return {"exchange": "amq.topic", "routing_keys": [f"job.{number}"]}


class TestWorkbench:
    @pytest.fixture
    def dead(self, node, vhost):
        """Three rejected messages in the queue dead, published to a topic exchange."""
        node.put(f"queues/{vhost}/dead", {"durable": True})
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        node.put(f"queues/{vhost}/work", {"durable": True, "arguments": arguments})
        node.post(f"bindings/{vhost}/e/amq.topic/q/work", {"routing_key": "job.#"})
        for number in range(3):
            headers = {"headers": {"number": number}, "priority": 0}
            node.publish(vhost, f"job.{number}", f"body {number}", headers, exchange="amq.topic")
        got = {"count": 3, "ackmode": "reject_requeue_false", "encoding": "auto"}
        assert len(node.post(f"queues/{vhost}/work/get", got).body) == 3
        node.wait_until(lambda: queue(node, vhost, "dead")["messages"] == 3, "they died")
        return f"queues/{vhost}/dead/messages"

    def bodies(self, node, path):
        return [message["payload"] for message in node.get(path)["messages"]]

    def test_looking_disturbs_nothing(self, node, vhost, dead):
        first = node.get(dead)
        assert self.bodies(node, dead) == ["body 0", "body 1", "body 2"]
        death = first["messages"][0]["deaths"][0]
        assert (death["queue"], death["reason"], death["exchange"]) == (
            "work", "rejected", "amq.topic"
        )  # fmt: skip
        assert death["routing_keys"] == ["job.0"]
        assert not any(message["redelivered"] for message in node.get(dead)["messages"])

    def test_searching(self, node, vhost, dead):
        def found(query):
            return [message["payload"] for message in node.get(f"{dead}?{query}")["messages"]]

        assert found("header=number:1") == ["body 1"]
        assert found("header=number") == ["body 0", "body 1", "body 2"]
        assert found("body=%5B02%5D$") == ["body 0", "body 2"]
        assert found("count=1&offset=1") == ["body 1"]
        assert node.request("GET", f"{dead}?body=(").status == 400

    def test_retrying_one_leaves_the_others_as_they_were(self, node, vhost, dead):
        middle = node.get(dead)["messages"][1]
        body = {"ids": [middle["id"]], "targets": [target(1)]}
        assert node.post(f"{dead}/retry", body).body == {"done": 1, "failed": []}
        assert self.bodies(node, dead) == ["body 0", "body 2"]
        assert not any(message["redelivered"] for message in node.get(dead)["messages"])
        back = node.get(f"queues/{vhost}/work/messages")["messages"]
        assert [(one["payload"], one["exchange"], one["routing_key"]) for one in back] == [
            ("body 1", "amq.topic", "job.1")
        ]
        assert "x-death" not in back[0]["properties"].get("headers", {})

    def test_retrying_all_that_match_with_an_audit_line(self, node, vhost, dead):
        body = {"all": True, "header": ["number:[01]"], "targets": [target(0), target(1)]}
        assert node.post(f"{dead}/retry", body).body["done"] == 2
        assert self.bodies(node, dead) == ["body 2"]
        line = node.acts(vhost=vhost)[0]
        assert (line["user"], line["action"], line["name"]) == ("guest", "messages.retry", "dead")

    def test_the_audit_log_holds_what_the_act_is_about_and_nothing_else(self, node, vhost, dead):
        """The log is kept in memory and on disk, and clients must not be able to fill either."""
        body = {"ids": [f"0-{number}" for number in range(5000)], "padding": "x" * 100_000,
                "to": {"exchange": "x" * 100_000, "routing_key": "", "more": ["x"] * 1000},
                "targets": ["x" * 100_000]}  # fmt: skip
        node.post(f"{dead}/retry", body)
        detail = node.acts(vhost=vhost)[0]["detail"]
        assert detail["ids"][0] == "0-0"
        assert detail["ids_count"] == 5000
        assert len(json.dumps(detail)) < 20_000
        assert "padding" not in detail

    def test_editing(self, node, vhost, dead):
        one = node.get(dead)["messages"][0]
        edit = {"payload": "new", "properties": {"content_type": "text/plain"}}
        body = {"ids": [one["id"]], "edit": edit, "to": {"exchange": "", "routing_key": "work"}}
        assert node.post(f"{dead}/retry", body).body["done"] == 1
        back = node.get(f"queues/{vhost}/work/messages")["messages"][0]
        assert (back["payload"], back["properties"]) == ("new", {"content_type": "text/plain"})

    def test_what_cannot_be_routed_stays(self, node, vhost, dead):
        one = node.get(dead)["messages"][0]
        body = {"ids": [one["id"], "0-999"], "to": {"exchange": "", "routing_key": "nowhere"}}
        done = node.post(f"{dead}/retry", body).body
        assert done["done"] == 0
        assert {failed["id"] for failed in done["failed"]} == {one["id"], "0-999"}
        assert self.bodies(node, dead) == ["body 0", "body 1", "body 2"]

    def test_moving_and_deleting(self, node, vhost, dead):
        ids = [message["id"] for message in node.get(dead)["messages"]]
        moved = node.post(f"{dead}/move", {"ids": ids[:1], "destination": "work"}).body
        assert moved["done"] == 1
        assert node.post(f"{dead}/delete", {"ids": ids[1:2]}).body["done"] == 1
        assert self.bodies(node, dead) == ["body 2"]
        assert node.post(f"{dead}/move", {"all": True, "destination": "none"}).status == 400
        assert node.post(f"{dead}/retry", {}).status == 400


def test_the_age_of_messages(node, vhost, channel):
    channel.queue_declare("q")
    assert queue(node, vhost, "q")["oldest_ready_age_ms"] is None
    channel.basic_publish("", "q", b"1")
    node.wait_until(lambda: (queue(node, vhost, "q")["oldest_ready_age_ms"] or 0) >= 20, "it ages")
    channel.basic_get("q")
    node.wait_until(
        lambda: queue(node, vhost, "q")["oldest_unacked_age_ms"] is not None, "it was sampled"
    )
    waited = queue(node, vhost, "q")["time_in_queue"]
    assert sum(waited["counts"]) == 1
    assert waited["sum_ms"] >= 20
