"""Statuses and bodies of answers to valid and invalid requests, as a real RabbitMQ gives them."""

from urllib.parse import quote

import pytest

OBJECT_NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


def bad(reason):
    return {"error": "bad_request", "reason": reason}


DECLARING = (
    ("PUT", "queues/{v}/q", {}, 201, None),
    ("PUT", "queues/{v}/q", {}, 204, None),
    ("PUT", "queues/{v}/q", {"durable": True}, 400, bad(
        "inequivalent arg 'durable' for queue 'q' in vhost '{v}': received 'true' but current is "
        "'false'")),
    ("PUT", "queues/{v}/q2", {"durable": "x"}, 400, bad(["not_boolean", "x"])),
    ("PUT", "queues/{v}/q2", {"arguments": {"x-max-length": -1}}, 400, bad(
        "invalid arg 'x-max-length' for queue 'q2' in vhost '{v}': {{value_negative,-1}}")),
    ("PUT", "queues/{v}/q2", [1], 400, bad("not_json")),
    ("PUT", "queues/{v}/q2", b"nojson", 400, bad("not_json")),
    ("PUT", "queues/nope/q2", {}, 404, {"error": "not_found", "reason": "vhost_not_found"}),
    ("PUT", "queues/{v}/full", {"arguments": {"x-max-length": 0, "x-overflow": "reject-publish"}},
     201, None),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"routing_key": "full", "payload": "", "payload_encoding": "string", "properties": {}}, 400,
     bad("rejected Unable to publish message. Check queue limits.")),
    ("DELETE", "queues/{v}/full", None, 204, None),
    ("GET", "queues/nope", None, 404, OBJECT_NOT_FOUND),
    ("GET", "queues/{v}/nope", None, 404, OBJECT_NOT_FOUND),
    ("DELETE", "queues/{v}/nope", None, 404, OBJECT_NOT_FOUND),
    ("PUT", "queues/{v}/%7Bid%7D", {}, 201, None),
    ("GET", "queues/{v}/%7Bid%7D?columns=name", None, 200, {"name": "{{id}}"}),
    ("DELETE", "queues/{v}/%7Bid%7D", None, 204, None),
    ("PUT", "queues/{v}/a%20b%2Fc%C3%A4", {"durable": True}, 201, None),
    ("GET", "queues/{v}/a%20b%2Fc%C3%A4?columns=name", None, 200, {"name": "a b/cä"}),
    ("PUT", "exchanges/{v}/x", {"type": "bad"}, 400, None),
    ("PUT", "exchanges/{v}/x", {}, 201, None),
    ("PUT", "exchanges/{v}/later",
     {"type": "x-delayed-message", "durable": True, "arguments": {"x-delayed-type": "direct"}},
     201, None),
    ("POST", "exchanges/{v}/later/publish",
     {"routing_key": "q", "payload": "", "payload_encoding": "string",
      "properties": {"headers": {"x-delay": 3_600_000}}}, 200, {"routed": True}),
    ("GET", "exchanges/{v}/later?columns=messages_delayed", None, 200, {"messages_delayed": 1}),
    ("PUT", "exchanges/{v}/amq.foo", {"type": "direct"}, 401,
     {"error": "not_authorised", "reason": "Access refused."}),
    ("DELETE", "exchanges/{v}/amq.direct", None, 401,
     {"error": "not_authorised", "reason": "Access refused."}),
    ("POST", "bindings/{v}/e/amq.topic/q/nope", {}, 404,
     {"error": "not_found", "reason": "no queue 'nope' in vhost '{v}'"}),
    ("POST", "bindings/{v}/e/nope/q/q", {}, 404,
     {"error": "not_found", "reason": "no exchange 'nope' in vhost '{v}'"}),
    ("POST", "bindings/{v}/e/amq.topic/q/q", {"routing_key": "a b/c"}, 201, None),
    ("GET", "bindings/{v}/e/amq.topic/q/q/a%20b%2Fc?columns=properties_key", None, 200,
     {"properties_key": "a+b%2Fc"}),
    ("GET", "bindings/{v}/e/amq.topic/q/q/~", None, 404, OBJECT_NOT_FOUND),
    ("DELETE", "bindings/{v}/e/amq.topic/q/q/a+b%252Fc", None, 204, None),
    ("DELETE", "bindings/{v}/e/amq.topic/q/q/a+b%252Fc", None, 404, OBJECT_NOT_FOUND),
    ("POST", "bindings/{v}/e/amq.headers/q/q",
     {"routing_key": "k", "arguments": {"z": 1, "a": "b"}}, 201, None),
    ("GET", "bindings/{v}/e/amq.headers/q/q/k~GS70pQ?columns=routing_key", None, 200,
     {"routing_key": "k"}),
    ("DELETE", "bindings/{v}/e/amq.headers/q/q/k~GS70pQ", None, 204, None),
    ("DELETE", "bindings/{v}/e/amq.headers/q/q/k~GS70pQ", None, 404, OBJECT_NOT_FOUND),
    ("POST", "queues/{v}/q/actions", {"action": "bogus"}, 400, bad(["unknown", "bogus"])),
    ("POST", "queues/{v}/q/actions", {"action": "sync"}, 204, None),
)  # fmt: skip

MESSAGES = (
    ("PUT", "queues/{v}/q", {"durable": True}, 201, None),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "string"}, 200,
     {"routed": True}),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"properties": [], "routing_key": "none", "payload": "aGk=", "payload_encoding": "base64"},
     200, {"routed": False}),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"properties": {"delivery_mode": "x"}, "routing_key": "q", "payload": "hi",
      "payload_encoding": "string"}, 400, bad(["not_int", "delivery_mode"])),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"properties": {"bogus": 1}, "routing_key": "none", "payload": "hi",
      "payload_encoding": "string"}, 200, {"routed": False}),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "bogus"}, 400,
     bad(["unsupported_encoding", "bogus"])),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"properties": {}, "routing_key": "q", "payload": "h!i", "payload_encoding": "base64"}, 400,
     bad(["not_base64", "h!i"])),
    ("POST", "exchanges/{v}/nope/publish",
     {"properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "string"}, 400,
     bad("404 NOT_FOUND - no exchange 'nope' in vhost '{v}'")),
    ("POST", "queues/{v}/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "x"}, 400,
     bad("Unsupported encoding. Please use auto or base64.")),
    ("POST", "queues/{v}/q/get", {"count": 1}, 400,
     bad("[{{key_missing,ackmode}},{{key_missing,encoding}}]")),
    ("POST", "queues/{v}/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
     200, [{"payload_bytes": 2, "redelivered": False, "exchange": "", "routing_key": "q",
            "message_count": 0, "properties": [], "payload": "hi",
            "payload_encoding": "string"}]),
    ("POST", "queues/{v}/q/get",
     {"count": 9, "ackmode": "ack_requeue_false", "encoding": "base64", "truncate": 1}, 200,
     [{"payload_bytes": 2, "redelivered": True, "exchange": "", "routing_key": "q",
       "message_count": 0, "properties": [], "payload": "aA==", "payload_encoding": "base64"}]),
    ("DELETE", "queues/{v}/q/contents", None, 204, None),
    ("DELETE", "queues/{v}/q?if-empty=true&if-unused=true", None, 204, None),
)  # fmt: skip

ACCESS = (
    ("PUT", "users/{v}u", {"tags": "administrator"}, 201, None),
    ("PUT", "users/{v}u", {"password": "p"}, 400, bad("tags_not_present")),
    ("PUT", "users/{v}u", {"password": "p", "tags": ["a", "b"]}, 204, None),
    ("GET", "users/{v}u?columns=tags", None, 200, None),
    ("PUT", "users/{v}u", {"password_hash": "", "tags": ""}, 204, None),
    ("PUT", "permissions/{v}/{v}u", {"configure": "[", "write": ".*", "read": ".*"}, 400, None),
    ("PUT", "permissions/{v}/nope", {"configure": "", "write": "", "read": ""}, 400,
     bad("vhost_or_user_not_found")),
    ("GET", "permissions/{v}/{v}u", None, 404, OBJECT_NOT_FOUND),
    ("PUT", "permissions/{v}/{v}u", {"configure": "a", "write": "b", "read": "c"}, 201, None),
    ("GET", "permissions/{v}/{v}u", None, 200,
     {"user": "{v}u", "vhost": "{v}", "configure": "a", "write": "b", "read": "c"}),
    ("PUT", "topic-permissions/{v}/{v}u", {"exchange": "amq.topic", "write": "a", "read": "b"},
     201, None),
    ("GET", "topic-permissions/{v}/{v}u", None, 200,
     [{"user": "{v}u", "vhost": "{v}", "exchange": "amq.topic", "write": "a", "read": "b"}]),
    ("PUT", "user-limits/{v}u/max-channels", {"value": 5}, 204, None),
    ("GET", "user-limits/{v}u", None, 200, [{"user": "{v}u", "value": {"max-channels": 5}}]),
    ("POST", "users/bulk-delete", {"users": ["{v}u", "zz"]}, 400, bad(["no_such_user", "zz"])),
    ("POST", "users/bulk-delete", {"users": ["{v}u"]}, 204, None),
    ("GET", "users/{v}u", None, 404, OBJECT_NOT_FOUND),
)  # fmt: skip

POLICIES = (
    ("PUT", "policies/{v}/p", {"pattern": "a", "definition": {"bogus": 1}}, 400, bad(
        'Validation failed\n\n[{{&lt;&lt;"bogus"&gt;&gt;,1}}] are not recognised policy '
        "settings\n")),
    ("PUT", "policies/{v}/p", {"pattern": "a", "definition": {}}, 400,
     bad("Validation failed\n\nno policy provided\n")),
    ("PUT", "policies/{v}/p", {"definition": {"max-length": 1}}, 400,
     bad("[{{key_missing,pattern}}]")),
    ("PUT", "policies/{v}/p", {"pattern": "[", "definition": {"max-length": 1}}, 400, None),
    ("PUT", "operator-policies/{v}/p", {"pattern": "a", "definition":
     {"dead-letter-exchange": "x"}}, 400, None),
    ("PUT", "policies/{v}/p", {"pattern": "a", "definition": {"max-length": 1}}, 201, None),
    ("GET", "policies/{v}/p", None, 200, {"vhost": "{v}", "name": "p", "pattern": "a",
     "apply-to": "all", "definition": {"max-length": 1}, "priority": 0}),
    ("DELETE", "policies/{v}/p", None, 204, None),
    ("DELETE", "policies/{v}/p", None, 404, OBJECT_NOT_FOUND),
    ("PUT", "parameters/bogus/{v}/x", {"value": 1}, 400,
     bad("Validation failed\n\ncomponent bogus not found\n")),
    ("PUT", "parameters/federation/{v}/x", {"value": 1}, 400,
     bad("Validation failed\n\nname not recognised: &lt;&lt;\"x\"&gt;&gt;\n")),
    ("PUT", "parameters/federation-upstream/{v}/x", {"value": {"uri": "amqp://"}}, 201, None),
    ("GET", "parameters/federation-upstream/{v}/x", None, 200,
     {"value": {"uri": "amqp://"}, "vhost": "{v}", "component": "federation-upstream",
      "name": "x"}),
    ("PUT", "global-parameters/{v}", {"value": {"a": 1}}, 201, None),
    ("GET", "global-parameters/{v}", None, 200, {"value": {"a": 1}, "name": "{v}"}),
    ("DELETE", "global-parameters/{v}", None, 204, None),
    ("PUT", "vhost-limits/{v}/max-queues", {"value": 5}, 204, None),
    ("PUT", "vhost-limits/{v}/bogus", {"value": 5}, 400,
     bad('Validation failed\n\nUnrecognised terms [{{<<"bogus">>,5}}] in limits\n')),
    ("GET", "vhost-limits/{v}", None, 200, [{"vhost": "{v}", "value": {"max-queues": 5}}]),
)  # fmt: skip

LISTS = (
    ("GET", "queues?page=0", None, 400, {"error": "invalid_pagination_parameters", "reason":
     "Invalid pagination parameters: page number 0, page size undefined"}),
    ("GET", "queues?page=1&page_size=900", None, 400, {"error": "invalid_pagination_parameters",
     "reason": "Invalid pagination parameters: page number 1, page size 900"}),
    ("GET", "queues/{v}?page=7", None, 400, {"error": "page_out_of_range", "reason":
     "Page out of range, page: 7 page size: 100, len: 0"}),
    ("GET", "queues?page=x", None, 400, bad("Pagination parameters are invalid")),
    ("GET", "queues/{v}?page=1", None, 200, {"filtered_count": 0, "item_count": 0, "items": [],
     "page": 1, "page_count": 0, "page_size": 100, "total_count": 0}),
    ("GET", "whoamix", None, 404, OBJECT_NOT_FOUND),
    ("GET", "whoami", None, 200, {"name": "guest", "tags": ["administrator"]}),
    ("GET", "aliveness-test/{v}", None, 200, {"status": "ok"}),
    ("GET", "health/checks/alarms", None, 200, {"status": "ok"}),
    ("GET", "health/checks/local-alarms", None, 200, {"status": "ok"}),
    ("GET", "health/checks/virtual-hosts", None, 200, {"status": "ok"}),
    ("GET", "health/checks/node-is-quorum-critical", None, 200, None),
    ("GET", "health/checks/protocol-listener/amqp091", None, 200, None),
    ("GET", "health/checks/protocol-listener/amqp0-9-1", None, 200,
     {"status": "ok", "protocol": "amqp"}),
    ("GET", "health/checks/protocol-listener/AMQP1.0", None, 200, None),
    ("GET", "health/checks/protocol-listener/management", None, 200,
     {"status": "ok", "protocol": "http"}),
    ("GET", "health/checks/protocol-listener/mqtt", None, 503, None),
    ("GET", "nodes/test@localhost/memory/ets", None, 200, {"ets_tables_memory": "no_tables"}),
    ("POST", "exchanges/{v}/amq.topic/publish", {
        "routing_key": None, "properties": {}, "payload": "", "payload_encoding": "string"
     }, 200, {"routed": False}),
    ("PUT", "queues/{v}/null", {}, 201, None),
    ("POST", "bindings/{v}/e/amq.topic/q/null", {"routing_key": None}, 201, None),
    ("GET", "bindings/{v}/e/amq.topic/q/null/null?columns=properties_key", None, 200,
     {"properties_key": "~"}),
    ("POST", "bindings/{v}/e/amq.topic/q/null", {"routing_key": "null"}, 201, None),
    ("GET", "bindings/{v}/e/amq.topic/q/null/null?columns=routing_key", None, 200,
     {"routing_key": "null"}),
    ("DELETE", "bindings/{v}/e/amq.topic/q/null/null", None, 204, None),
    ("DELETE", "bindings/{v}/e/amq.topic/q/null/null", None, 204, None),
    ("DELETE", "bindings/{v}/e/amq.topic/q/null/null", None, 404, None),
    ("GET", "health/checks/port-listener/1", None, 503, None),
    ("GET", "health/checks/port-listener/x", None, 400, bad("Invalid port")),
    ("GET", "health/checks/certificate-expiration/1/months", None, 200, {"status": "ok"}),
    ("GET", "health/checks/certificate-expiration/1/moons", None, 400, None),
    ("POST", "definitions", b"bad", 400, bad("failed_to_parse_json")),
    ("POST", "definitions", {"queues": [{"name": "dq", "vhost": "nopev"}]}, 400,
     {**bad(["no_such_vhost", "nopev"]),
      "problems": [{"path": "queues[0].vhost", "reason": ["no_such_vhost", "nopev"]}]}),
    ("POST", "rebalance/queues", {}, 204, None),
    ("DELETE", "vhosts/nope", None, 404, OBJECT_NOT_FOUND),
)  # fmt: skip


def filled(value, vhost):
    """Insert the vhost's name for the placeholders."""
    if isinstance(value, str):
        return value.replace("{v}", vhost).replace("{{", "{").replace("}}", "}")
    if isinstance(value, list):
        return [filled(item, vhost) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, vhost) for key, item in value.items()}
    return value


@pytest.mark.parametrize(
    "requests", [DECLARING, MESSAGES, ACCESS, POLICIES, LISTS],
    ids=["declaring", "messages", "access", "policies", "lists"],
)  # fmt: skip
def test_requests_are_answered_as_rabbitmq_answers_them(requests, node, vhost):
    for method, path, body, status, expected in requests:
        content = {"raw": body} if isinstance(body, bytes) else {"body": filled(body, vhost)}
        answer = node.request(method, filled(path, vhost), **content)
        assert answer.status == status, (method, path, answer)
        if expected is not None:
            assert answer.body == filled(expected, vhost), (method, path)


def test_without_a_login_nothing_is_told(node):
    answer = node.request("GET", "overview", user=None)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="RabbitMQ Management"'
    answer = node.request("GET", "overview", user="guest:wrong")
    assert (answer.status, answer.body) == (
        401, {"error": "not_authorized", "reason": "Login failed"}
    )  # fmt: skip


def test_the_methods_of_a_path_are_told(node):
    answer = node.request("POST", "overview", {})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert node.request("OPTIONS", "overview").status == 200


def test_answers_carry_the_headers_of_a_careful_server(node):
    headers = node.request("GET", "whoami").headers
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-cache"


def test_the_location_of_a_binding_leads_to_it(node, vhost):
    node.put(f"queues/{vhost}/q")
    answer = node.post(f"bindings/{vhost}/e/amq.topic/q/q", {"routing_key": "k/1",
                                                             "arguments": {"a": 1}})  # fmt: skip
    location = answer.headers["Location"]
    place, _, key = location.partition("/")
    found = node.get(f"bindings/{vhost}/e/amq.topic/q/{place}/{key}")
    assert (found["routing_key"], found["arguments"]) == ("k/1", {"a": 1})


@pytest.fixture
def users(node, vhost):
    """A user for each tag, all with all permissions in the test's vhost."""
    names = {}
    for tag in ("management", "monitoring", "policymaker", "none"):
        name = names[tag] = f"{vhost}-{tag}"
        node.put(f"users/{name}", {"password": "p", "tags": "" if tag == "none" else tag})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        node.put(f"permissions/{vhost}/{name}", everything)
    yield {tag: f"{name}:p" for tag, name in names.items()}
    for name in names.values():
        node.delete(f"users/{name}")


def test_tags_decide_who_sees_what(node, vhost, users):
    def status(tag, path, method="GET", body=None):
        return node.request(method, path, body, user=users[tag]).status

    assert status("none", "whoami") == 401
    assert status("management", "nodes") == 401
    assert status("monitoring", "nodes") == 200
    assert status("management", "users") == 401
    assert status("management", f"queues/{vhost}") == 200
    assert status("management", "queues/%2F") == 401
    assert [one["name"] for one in node.get("vhosts", user=users["management"])] == [vhost]
    assert "/" in [one["name"] for one in node.get("vhosts", user=users["monitoring"])]
    policy = {"pattern": "x", "definition": {"max-length": 1}}
    assert status("management", f"policies/{vhost}/p", "PUT", policy) == 401
    assert status("policymaker", f"policies/{vhost}/p", "PUT", policy) == 201
    assert status("policymaker", f"operator-policies/{vhost}/p", "PUT", policy) == 401
    assert "listeners" not in node.get("overview", user=users["management"])


def test_users_see_and_close_their_own_connections_only(node, vhost, users, channel):
    mine = [one for one in node.get("connections") if one["vhost"] == vhost]
    assert len(mine) == 1
    assert node.get("connections", user=users["management"]) == []
    path = f"connections/{quote(mine[0]['name'], safe='')}"
    assert node.request("GET", path, user=users["management"]).status == 401
    assert node.request("GET", path, user=users["monitoring"]).status == 200
    assert node.request("DELETE", path, user=users["monitoring"]).status == 401
    assert node.delete(path, headers={"X-Reason": "for the test"}).status == 204
    node.wait_until(
        lambda: all(one["vhost"] != vhost for one in node.get("connections")), "it is closed"
    )
