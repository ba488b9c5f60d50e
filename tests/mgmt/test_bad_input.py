"""Invalid requests: each is refused with a reason, and the node continues.

Others are among the recordings of a real RabbitMQ (recorder/).
"""

import json
from urllib.parse import quote

import pytest

from tests.mgmt.served_node import ServedNode

BODY_BYTES_MAX = 100_000
TAKES_BODIES = (
    ("PUT", "queues/{v}/q"), ("PUT", "exchanges/{v}/x"), ("PUT", "vhosts/{v}"), ("PUT", "users/u"),
    ("PUT", "permissions/{v}/guest"), ("PUT", "policies/{v}/p"), ("PUT", "vhost-limits/{v}/x"),
    ("PUT", "parameters/shovel/{v}/p"), ("PUT", "global-parameters/p"), ("PUT", "cluster-name"),
    ("POST", "bindings/{v}/e/amq.topic/q/kept"), ("POST", "exchanges/{v}/amq.topic/publish"),
    ("POST", "queues/{v}/kept/get"), ("POST", "queues/{v}/kept/plan"), ("POST", "definitions"),
    ("POST", "definitions/{v}"), ("POST", "users/bulk-delete"),
    ("POST", "queues/{v}/kept/messages/retry"),
)  # fmt: skip
NO_JSON = {
    "cut off": b'{"durable": tr',
    "two values": b"{} {}",
    "a list": b"[1, 2]",
    "a text": b'"{}"',
    "a number": b"17",
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "half of a surrogate pair": b'{"a": "\\ud800"}',
    "a NUL between": b'{"a":\x00 1}',
    "not a number": b'{"a": NaN}',
    "another encoding": '{"a": 1}'.encode("utf-16"),
    "a form": b"durable=true&name=q",
    "very deep": b'{"a":' + b"[" * 40_000,
    "deeper than tables": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "deep objects": b'{"a":' * 500 + b"1" + b"}" * 500,
}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node of its own, with limits that tests can reach."""
    served = ServedNode(
        tmp_path_factory.mktemp("node"), f"management.http.max_body_size = {BODY_BYTES_MAX}"
    )
    served.put("vhosts/v")
    served.put("queues/v/kept", {"durable": True})
    yield served
    served.stop()


@pytest.fixture(autouse=True)
def unharmed(node):
    """After each test: existing objects are unchanged, and there was no internal error."""
    yield
    assert node.get("queues/v/kept")["durable"] is True
    assert "Traceback" not in node.log, node.log[-3000:]


# Bodies


@pytest.mark.parametrize("raw", NO_JSON.values(), ids=NO_JSON)
def test_a_body_that_is_not_a_json_object_is_refused(raw, node):
    for method, path in TAKES_BODIES:
        if path.startswith("definitions"):
            # Unknown lists are ignored.
            raw = raw.replace(b'"a"', b'"queues"')
        answer = node.request(method, path.format(v="v"), raw=raw)
        assert answer.status in (400, 404), (method, path, answer)
        if answer.status == 400:
            assert answer.body["error"] == "bad_request"
            assert answer.body["reason"]


@pytest.mark.parametrize(("method", "path"), TAKES_BODIES)
def test_a_body_over_the_limit_is_refused(method, path, node):
    raw = json.dumps({"pad": "x" * BODY_BYTES_MAX}).encode()
    answer = node.request(method, path.format(v="v"), raw=raw)
    assert answer.status == 400, answer
    assert answer.body["error"] == "bad_request"
    assert answer.body["reason"] == "Exceeded HTTP request body size limit"


def test_a_body_just_under_the_limit_is_taken(node):
    body = {"value": ""}
    body["value"] = "x" * (BODY_BYTES_MAX - len(json.dumps(body)))
    assert node.put("global-parameters/large", body).status in (201, 204)
    assert node.get("global-parameters/large")["value"] == body["value"]


WRONG_TYPES = (
    ("PUT", "queues/v/q", {"auto_delete": "yes"}), ("PUT", "queues/v/q", {"arguments": 5}),
    ("PUT", "queues/v/q", {"arguments": {"x-max-length": "many"}}),
    ("PUT", "queues/v/q", {"arguments": {"x-max-length": None}}),
    ("PUT", "queues/v/q", {"arguments": {"x-max-length": 2**70}}),
    ("PUT", "exchanges/v/x", {"type": ["topic"]}),
    ("POST", "bindings/v/e/amq.topic/q/kept", {"routing_key": {"a": 1}}),
    ("POST", "bindings/v/e/amq.topic/q/kept", {"arguments": True}),
    ("POST", "queues/v/kept/get", {"count": True, "ackmode": "ack_requeue_true",
                                   "encoding": "auto"}),
    ("POST", "queues/v/kept/get", {"count": 1e300, "ackmode": "ack_requeue_what",
                                   "encoding": "auto"}),
    ("POST", "exchanges/v/amq.topic/publish", {"routing_key": 5, "properties": {}, "payload": "",
                                               "payload_encoding": "string"}),
    ("POST", "exchanges/v/amq.topic/publish", {"routing_key": "a", "properties": {"headers": 1},
                                               "payload": "", "payload_encoding": "string"}),
    ("POST", "exchanges/v/amq.topic/publish", {"routing_key": "a", "properties": {},
                                               "payload": "ü", "payload_encoding": "base64"}),
    ("POST", "exchanges/v/amq.topic/publish", {"routing_key": "k" * 300, "properties": {},
                                               "payload": "", "payload_encoding": "string"}),
    ("PUT", "users/u", {"tags": {"a": 1}}), ("PUT", "users/u", {"password_hash": {}, "tags": ""}),
    ("PUT", "users/u", {"password_hash": "AAAA", "hashing_algorithm": {"a": 1}, "tags": ""}),
    ("PUT", "topic-permissions/v/guest", {"exchange": [], "write": "", "read": ""}),
    ("PUT", "policies/v/p", {"pattern": 5, "definition": {"max-length": 1}}),
    ("PUT", "policies/v/p", {"pattern": "a", "definition": [1]}),
    ("PUT", "policies/v/p", {"pattern": "a", "definition": {"max-length": "x"}}),
    ("PUT", "policies/v/p", {"pattern": "a", "definition": {"max-length": 1}, "priority": []}),
    ("PUT", "policies/v/p", {"pattern": "a", "definition": {"max-length": 1}, "apply-to": 5}),
    ("PUT", "vhost-limits/v/max-queues", {"value": "five"}),
    ("PUT", "user-limits/guest/max-channels", {"value": []}),
    ("PUT", "vhosts/v", {"tags": [1]}), ("PUT", "vhosts/v", {"default_queue_type": []}),
    ("POST", "users/bulk-delete", {"users": [5]}),
    ("POST", "queues/v/kept/messages/move", {"destination": 5, "all": True}),
    ("POST", "queues/v/kept/messages/retry", {"ids": "all"}),
    ("POST", "queues/v/kept/messages/delete", {"all": True, "header": 5}),
    ("POST", "queues/v/kept/messages/delete", {"all": True, "header": [5]}),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), WRONG_TYPES)
def test_wrong_types_are_refused(method, path, body, node):
    answer = node.request(method, path, body)
    assert answer.status == 400, answer
    assert answer.body["error"] == "bad_request"


# Paths and queries


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("page=1000000&page_size=500", 400), ("page=1e3", 400), (f"page={'9' * 5000}", 400),
        (f"page=1&use_regex=true&name={'(' * 2000}", 400),
        ("page=1&use_regex=true&name=a{99999}", 400), ("lengths_age=x&lengths_incr=1", 200),
        ("lengths_age=99999999&lengths_incr=1", 400), ("lengths_age=-5&lengths_incr=-5", 400),
        ("lengths_age=5&lengths_incr=0", 400), ("lengths_age=501&lengths_incr=1", 400),
        ("lengths_age=500&lengths_incr=1", 200), ("lengths_age=60.5&lengths_incr=5", 200),
        ("msg_rates_age=-1&msg_rates_incr=5", 400), ("lengths_age=60&lengths_incr=7", 200),
        ("sort=nothing.at.all&columns=name.x.y,,.,..", 200), ("columns=name,name.x.y", 200),
        ("sort=arguments&sort_reverse=maybe", 200), ("page=1&page=2&%00=%ff", 200),
    ],
)  # fmt: skip
def test_odd_queries(query, status, node):
    answer = node.request("GET", f"queues?{query}")
    assert answer.status == status, answer
    if status == 400:
        assert answer.body["reason"]


@pytest.mark.parametrize("kind", ["lengths", "msg_rates", "data_rates", "node_stats"])
@pytest.mark.parametrize(
    "path", ["overview", "queues", "exchanges", "vhosts", "connections", "channels", "nodes"]
)
def test_samples_that_make_no_sense(path, kind, node):
    for age, increment in ((-1, 5), (60, 0), (60_000_000, 1)):
        answer = node.request("GET", f"{path}?{kind}_age={age}&{kind}_incr={increment}")
        assert answer.status == 400
        assert answer.body["reason"] == (f"Invalid range parameters: age {age}, incr {increment}")


@pytest.mark.parametrize(
    "path",
    [
        "health/checks/port-listener/%C2%B2", f"health/checks/port-listener/{'9' * 5000}",
        "health/checks/certificate-expiration/%C2%B2/days",
        f"health/checks/certificate-expiration/{'9' * 5000}/days",
        "definitions?auth=%C3%BC",
    ],
)  # fmt: skip
def test_odd_numbers_and_logins_are_refused(path, node):
    user = None if "auth=" in path else "guest:guest"
    assert node.request("GET", path, user=user).status in (400, 401)


def test_a_file_name_cannot_add_headers(node):
    name = quote('a";\r\nX-Evil: 1\x11ü.json')
    headers = node.request("GET", f"definitions?download={name}").headers
    assert headers["X-Evil"] is None
    assert headers["Content-Disposition"].startswith('attachment; filename="a')


@pytest.mark.parametrize("name", ["q" * 256, "ü" * 128, "q" * 7000])
def test_huge_names_are_refused(name, node):
    for path in (f"queues/v/{quote(name)}", f"exchanges/v/{quote(name)}"):
        if len(path) < 8000:
            assert node.put(path).status == 400, path
    assert [one["name"] for one in node.get("queues/v")] == ["kept"]


def test_names_are_decoded_once(node):
    for name in ("100%41", "a%2Fb", "+ +", "a/b", "%", "\u200b", "..", "."):
        path = f"queues/v/{quote(name, safe='')}"
        if name in ("..", "."):
            path = path.replace(".", "%2E")
        status = node.put(path).status
        assert status == 201 if name.strip(".") else status in (201, 404, 405), name
        if status == 201:
            assert node.get(path)["name"] == name
            assert node.delete(path).status == 204


# Definitions


@pytest.mark.parametrize(
    "content",
    [
        {"queues": {"name": "q"}}, {"queues": "q"}, {"queues": [1]}, {"queues": [[]]},
        {"parameters": [{"vhost": "v", "component": "shovel", "name": "deep",
                         "value": json.loads("[" * 300 + "]" * 300)}]},
        {"queues": [{"vhost": "v", "name": "deep",
                     "arguments": {"a": json.loads("[" * 300 + "]" * 300)}}]},
    ],
)  # fmt: skip
def test_definitions_of_another_shape_are_refused(content, node):
    before = node.get("definitions")
    assert node.post("definitions", content).status == 400
    assert node.get("definitions") == before


@pytest.mark.parametrize("sent_type", ["multipart/form-data", "multipart/form-data; boundary=",
                                       "multipart/form-data; boundary=x", "multipart/mixed",
                                       "text/plain; charset=nonsense"])  # fmt: skip
def test_a_broken_form_is_refused(sent_type, node):
    answer = node.post("definitions", None, raw=b"no form", headers={"Content-Type": sent_type})
    assert answer.status == 400, answer
    answer = node.post("login", None, raw=b"no form", headers={"Content-Type": sent_type})
    assert answer.status in (400, 401), answer
