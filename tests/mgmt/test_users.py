"""Bodies of users, as RabbitMQ 3.10 takes them, over the API and in definitions."""

import base64
import hashlib

import pika
import pytest

RIGHTS = {"configure": "a", "write": "b", "read": "c"}


@pytest.fixture
def name(node, vhost):
    yield f"{vhost}-user"
    node.delete(f"users/{vhost}-user")


@pytest.mark.parametrize(
    ("body", "tags"),
    [
        ({"administrator": "false"}, []), ({"administrator": False}, []),
        ({"administrator": "true"}, ["administrator"]),
        ({"administrator": True}, ["administrator"]),
        ({"administrator": True, "tags": ""}, []), ({"tags": " a , b "}, ["a", "b"]),
        ({"tags": ["a", "b"]}, ["a", "b"]),
    ],
)  # fmt: skip
def test_administrator_stands_for_the_tag(node, name, body, tags):
    assert node.put(f"users/{name}", {"password": "p", **body}).status == 201
    assert node.get(f"users/{name}")["tags"] == tags


@pytest.mark.parametrize("value", [None, "yes", "", 1, 0, [], {}])
def test_other_values_of_it_make_no_user(node, name, value):
    answer = node.put(f"users/{name}", {"password": "p", "administrator": value})
    assert (answer.status, answer.body["reason"]) == (400, ["not_boolean", value])
    assert node.request("GET", f"users/{name}").status == 404


def test_a_body_may_have_permissions_and_limits(node, vhost, name):
    body = {"password": "p", "tags": "", "permissions": {vhost: RIGHTS},
            "limits": {"max-channels": 5}}  # fmt: skip
    assert node.put(f"users/{name}", body).status == 201
    assert node.get(f"users/{name}/permissions") == [{"user": name, "vhost": vhost, **RIGHTS}]
    assert node.get(f"users/{name}")["limits"] == {"max-channels": 5}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"permissions": {"nowhere": RIGHTS}}, ["no_such_vhost", "nowhere"]),
        ({"permissions": []}, ["not_an_object", "permissions"]),
        ({"permissions": {"/": "all"}}, ["not_an_object", "/"]),
        ({"permissions": {"/": {"configure": ".*"}}}, ["not_string", "write"]),
        ({"limits": 5}, ["not_an_object", "limits"]),
        ({"limits": {"max-birds": 5}}, 'Unrecognised terms [{<<"max-birds">>,5}] in user-limits'),
    ],
)
def test_with_wrong_ones_no_user_is_made(node, name, more, reason):
    answer = node.put(f"users/{name}", {"password": "p", "tags": "", **more})
    assert (answer.status, answer.body["reason"]) == (400, reason)
    assert node.request("GET", f"users/{name}").status == 404


def test_an_empty_password_is_accepted_but_no_one_can_log_in_with_it(node, name):
    assert node.put(f"users/{name}", {"password": "", "tags": "administrator"}).status == 201
    assert node.get(f"users/{name}")["password_hash"] != ""
    assert node.request("GET", "whoami", user=f"{name}:").status == 401


def test_logins_over_http_are_counted_as_attempts_of_the_protocol_http(node, name):
    path = f"auth/attempts/{node.get('overview')['node']}"
    node.delete(path)
    node.put(f"users/{name}", {"password": "p", "tags": "management"})
    for password, status in (("p", 200), ("wrong", 401)):
        assert node.request("GET", "whoami", user=f"{name}:{password}").status == status
    (http,) = [one for one in node.get(path) if one["protocol"] == "http"]
    assert http["auth_attempts_failed"] == 1
    # The test asks as a user, too.
    assert http["auth_attempts"] == http["auth_attempts_succeeded"] + 1 >= 3


def test_all_limits_of_a_user_are_deleted_at_once(node, name):
    node.put(f"users/{name}", {"password": "p", "tags": ""})
    node.put(f"user-limits/{name}/max-connections", {"value": 5})
    node.put(f"user-limits/{name}/max-channels", {"value": 6})
    assert node.delete(f"user-limits/{name}/all").status == 204
    assert node.get(f"user-limits/{name}") == []


class TestDefinitions:
    def test_users_have_permissions_and_limits(self, node, vhost, name):
        user = {"name": name, "password": "p", "administrator": "true", "limits": {},
                "permissions": {vhost: RIGHTS}}  # fmt: skip
        assert node.post("definitions", {"users": [user]}).status == 204
        assert node.get(f"users/{name}")["tags"] == ["administrator"]
        assert node.get(f"users/{name}/permissions") == [{"user": name, "vhost": vhost, **RIGHTS}]

    def test_wrong_ones_are_told(self, node, name):
        users = [{"name": name, "tags": "", "permissions": {"nowhere": RIGHTS}},
                 {"name": name, "administrator": 1}]  # fmt: skip
        problems = node.post("definitions", {"users": users}).body["problems"]
        assert [problem["path"] for problem in problems] == [
            "users[0].permissions.nowhere", "users[1].administrator"
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("version", "algorithm"),
        [
            ({"rabbit_version": "3.5.7"}, "md5"), ({"rabbitmq_version": "2.8.0"}, "md5"),
            ({"rabbit_version": "3.6.0"}, "sha256"), ({"rabbit_version": "3.10.8"}, "sha256"),
            ({}, "sha256"), ({"rabbit_version": 5}, "sha256"), ({"rabbit_version": "x"}, "sha256"),
        ],
    )  # fmt: skip
    def test_hashes_of_old_versions_are_md5(self, node, vhost, name, version, algorithm):
        salt, password = b"salt", b"secret"
        hashed = salt + hashlib.new(algorithm, salt + password).digest()
        user = {"name": name, "tags": "", "password_hash": base64.b64encode(hashed).decode()}
        assert node.post("definitions", {**version, "users": [user]}).status == 204
        assert node.get(f"users/{name}")["hashing_algorithm"].endswith(algorithm)
        node.put(f"permissions/{vhost}/{name}", RIGHTS)
        credentials = pika.PlainCredentials(name, "secret")
        where = pika.ConnectionParameters("127.0.0.1", node.port, vhost, credentials)
        pika.BlockingConnection(where).close()

    def test_queues_with_names_of_the_broker_are_left_out(self, node, vhost):
        queue = {"durable": True, "auto_delete": False, "arguments": {}}
        binding = {"source": "amq.direct", "destination_type": "queue", "routing_key": "k"}
        content = {
            "queues": [{"name": "amq.gen-x", **queue}, {"name": "mine", **queue}],
            "exchanges": [{"name": "amq.mine", "type": "topic", "durable": True}],
            "bindings": [{"destination": "amq.gen-x", **binding},
                         {"destination": "mine", **binding}],
        }  # fmt: skip
        changes = node.post(f"definitions/{vhost}?dry_run=true", content).body["changes"]
        assert "amq.gen-x" not in str(changes)
        assert node.post(f"definitions/{vhost}", content).status == 204
        assert [one["name"] for one in node.get(f"queues/{vhost}")] == ["mine"]
        assert "amq.mine" not in [one["name"] for one in node.get(f"exchanges/{vhost}")]
        bound = node.get(f"exchanges/{vhost}/amq.direct/bindings/source")
        assert [one["destination"] for one in bound] == ["mine"]
