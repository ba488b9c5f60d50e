"""Answers to requests that the recordings of a real RabbitMQ do not have, and their headers."""

OBJECT_NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


def bad(reason):
    return {"error": "bad_request", "reason": reason}


REQUESTS = (
    ("PUT", "queues/{v}/full", {"arguments": {"x-max-length": 0, "x-overflow": "reject-publish"}},
     201, None),
    ("POST", "exchanges/{v}/amq.default/publish",
     {"routing_key": "full", "payload": "", "payload_encoding": "string", "properties": {}}, 400,
     bad("rejected Unable to publish message. Check queue limits.")),
    ("PUT", "queues/{v}/%7Bid%7D", {}, 201, None),
    ("GET", "queues/{v}/%7Bid%7D?columns=name", None, 200, {"name": "{{id}}"}),
    ("DELETE", "queues/{v}/%7Bid%7D", None, 204, None),
    ("PUT", "queues/{v}/q", {}, 201, None),
    ("PUT", "exchanges/{v}/later",
     {"type": "x-delayed-message", "durable": True, "arguments": {"x-delayed-type": "direct"}},
     201, None),
    ("POST", "exchanges/{v}/later/publish",
     {"routing_key": "q", "payload": "", "payload_encoding": "string",
      "properties": {"headers": {"x-delay": 3_600_000}}}, 200, {"routed": True}),
    ("GET", "exchanges/{v}/later?columns=messages_delayed", None, 200, {"messages_delayed": 1}),
    ("POST", "bindings/{v}/e/amq.headers/q/q",
     {"routing_key": "k", "arguments": {"z": 1, "a": "b"}}, 201, None),
    ("GET", "bindings/{v}/e/amq.headers/q/q/k~GS70pQ?columns=routing_key", None, 200,
     {"routing_key": "k"}),
    ("DELETE", "bindings/{v}/e/amq.headers/q/q/k~GS70pQ", None, 204, None),
    ("DELETE", "bindings/{v}/e/amq.headers/q/q/k~GS70pQ", None, 404, OBJECT_NOT_FOUND),
    ("GET", "health/checks/protocol-listener/amqp0-9-1", None, 200,
     {"status": "ok", "protocol": "amqp"}),
    ("GET", "health/checks/protocol-listener/AMQP1.0", None, 200, None),
    ("GET", "health/checks/protocol-listener/management", None, 200,
     {"status": "ok", "protocol": "http"}),
    ("GET", "health/checks/certificate-expiration/1/months", None, 200, {"status": "ok"}),
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
    ("POST", "definitions", {"queues": [{"name": "dq", "vhost": "nopev"}]}, 400,
     {**bad(["no_such_vhost", "nopev"]),
      "problems": [{"path": "queues[0].vhost", "reason": ["no_such_vhost", "nopev"]}]}),
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


def test_requests_are_answered_as_rabbitmq_answers_them(node, vhost):
    for method, path, body, status, expected in REQUESTS:
        content = {"raw": body} if isinstance(body, bytes) else {"body": filled(body, vhost)}
        answer = node.request(method, filled(path, vhost), **content)
        assert answer.status == status, (method, path, answer)
        if expected is not None:
            assert answer.body == filled(expected, vhost), (method, path)


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
