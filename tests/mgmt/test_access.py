"""Permissions of the HTTP API: RabbitMQ's answers to users of each tag."""

import pytest

TAGS = ("administrator", "monitoring", "policymaker", "management")
REFUSED = {"error": "not_authorised", "reason": "Access refused."}
MESSAGE = {"routing_key": "q", "properties": {}, "payload": "x", "payload_encoding": "string"}


@pytest.fixture
def users(node, vhost):
    """A user of each tag with all permissions in the test's vhost; returns their logins."""
    logins = {}
    for tag in TAGS:
        name = f"{vhost}-{tag}"
        assert node.put(f"users/{name}", {"password": "secret", "tags": tag}).status == 201
        node.put(f"permissions/{vhost}/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
        logins[tag] = f"{name}:secret"
    yield logins
    for tag in TAGS:
        node.delete(f"users/{vhost}-{tag}")


def statuses(node, users, path):
    return {tag: node.request("GET", path, user=users[tag]).status for tag in TAGS}


def test_a_single_policy_is_for_policymakers(node, vhost, users):
    node.put(f"policies/{vhost}/p", {"pattern": "x", "definition": {"max-length": 1}})
    found = statuses(node, users, f"policies/{vhost}/p")
    assert found == {
        "administrator": 200, "policymaker": 200, "monitoring": 401, "management": 401
    }  # fmt: skip


def test_a_single_operator_policy_is_for_administrators(node, vhost, users):
    node.put(f"operator-policies/{vhost}/p", {"pattern": "x", "definition": {"max-length": 1}})
    found = statuses(node, users, f"operator-policies/{vhost}/p")
    assert found == {
        "administrator": 200, "policymaker": 401, "monitoring": 401, "management": 401
    }  # fmt: skip


def test_hashes_are_made_for_administrators(node, users):
    found = statuses(node, users, "auth/hash_password/secret")
    assert found == {
        "administrator": 200, "policymaker": 401, "monitoring": 401, "management": 401
    }  # fmt: skip


class TestOverview:
    """Users without the tag monitoring see the totals of their vhosts, as in RabbitMQ."""

    WINDOWS = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5"

    @pytest.fixture
    def published(self, node, vhost):
        """Messages in the test's vhost, which are in the node's totals."""
        node.put(f"queues/{vhost}/q")
        for _ in range(3):
            node.publish(vhost, "q", "x")

        def are_counted():
            return node.get(f"vhosts/{vhost}").get("message_stats", {}).get("publish") == 3

        node.wait_until(are_counted, "they are counted")
        assert node.get("overview")["message_stats"]["publish"] >= 3

    def test_without_a_vhost_there_are_none(self, node, vhost, users, published):
        node.delete(f"permissions/{vhost}/{vhost}-management")
        shown = node.get(f"overview?{self.WINDOWS}", user=users["management"])
        assert shown["message_stats"] == {}
        assert shown["queue_totals"] == {}
        assert set(shown["object_totals"].values()) == {0}
        assert "churn_rates" not in shown

    def test_they_are_those_of_the_users_vhosts(self, node, vhost, users, published):
        shown = node.get(f"overview?{self.WINDOWS}", user=users["management"])
        assert shown["message_stats"]["publish"] == 3
        assert shown["queue_totals"]["messages"] == 3
        details = shown["queue_totals"]["messages_details"]
        assert {one["sample"] for one in details["samples"]} <= {0, 1, 2, 3}


class TestAdministratorWithoutPermissions:
    """An administrator may see every vhost, but a client's actions need a client's permissions."""

    @pytest.fixture
    def login(self, node, vhost, users):
        node.put(f"queues/{vhost}/q")
        node.delete(f"permissions/{vhost}/{vhost}-administrator")
        return users["administrator"]

    def test_it_sees_the_queue(self, node, vhost, login):
        assert node.request("GET", f"queues/{vhost}/q", user=login).status == 200

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "exchanges/{v}/amq.default/publish", MESSAGE),
            ("PUT", "queues/{v}/other", {}),
            ("DELETE", "queues/{v}/q", None),
            ("POST", "queues/{v}/q/get",
             {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
            ("POST", "bindings/{v}/e/amq.direct/q/q", {}),
        ],
    )  # fmt: skip
    def test_it_does_nothing_there(self, node, vhost, login, method, path, body):
        answer = node.request(method, path.format(v=vhost), body, user=login)
        assert answer.status == 401
        assert answer.body["error"] == "not_authorised"

    def test_the_reason_is_rabbitmqs(self, node, vhost, login):
        answer = node.post(f"exchanges/{vhost}/amq.default/publish", MESSAGE, user=login)
        assert answer.body == REFUSED


class TestExclusiveQueue:
    """Only its connection may access its messages, whatever other users' permissions are."""

    @pytest.fixture
    def queue(self, channel):
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", name, b"private")
        return name

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", "messages", None),
            ("DELETE", "", None),
            ("DELETE", "contents", None),
            ("POST", "messages/retry", {"all": True}),
            ("POST", "messages/move", {"all": True, "destination": "mine"}),
            ("POST", "messages/delete", {"all": True}),
            ("POST", "get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
        ],
    )
    def test_it_is_refused(self, node, vhost, users, queue, method, path, body):
        node.put(f"queues/{vhost}/mine")
        for login in ("guest:guest", users["management"]):
            answer = node.request(method, f"queues/{vhost}/{queue}/{path}", body, user=login)
            assert answer.status == 400
            assert "cannot obtain exclusive access to locked queue" in answer.body["reason"]
