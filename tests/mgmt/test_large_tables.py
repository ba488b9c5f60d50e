"""Requests with very many values, which a field table or the node's other work cannot take."""

import pytest

from leveret.mgmt.api.json_bodies import STRUCTURE_BYTES_MAX

TURN_CALLS_MAX = 20_000
MANY = [[1]] * 1_000_000
PUBLISH = {"routing_key": "q", "properties": {}, "payload": "", "payload_encoding": "string"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("exchanges/%2F/amq.default/publish", PUBLISH | {"properties": {"headers": {"a": MANY}}}),
        ("queues/%2F/q/plan", {"arguments": {"a": MANY}}),
        ("bindings/%2F/e/amq.topic/e/amq.direct", {"arguments": {"a": MANY}}),
    ],
)
async def test_they_are_refused_without_converting_them(served, path, body):
    assert await served.longest_turn(f"api/{path}", body, status=400) < TURN_CALLS_MAX


async def test_a_payload_may_have_as_many_commas_as_it_likes(served):
    body = PUBLISH | {"payload": "[1],{" * 2_000_000}
    path = "api/exchanges/%2F/amq.default/publish"
    assert await served.longest_turn(path, body) < TURN_CALLS_MAX


class TestNode:
    @pytest.mark.parametrize("kind", ["queues", "exchanges"])
    def test_arguments_must_fit_in_a_frame(self, node, vhost, kind):
        answer = node.put(f"{kind}/{vhost}/large", {"arguments": {"x": "y" * 130_000}})
        assert (answer.status, answer.body["error"]) == (400, "bad_request")
        assert "bytes" in answer.body["reason"]
        assert node.request("GET", f"{kind}/{vhost}/large").status == 404

    def test_so_must_those_of_definitions(self, node, vhost):
        queue = {"name": "large", "arguments": {"x": "y" * 130_000}}
        answer = node.post(f"definitions/{vhost}", {"queues": [queue]})
        assert answer.body["problems"][0]["path"] == "queues[0].arguments"

    def test_a_header_with_a_long_name_is_refused(self, node, vhost):
        body = PUBLISH | {"properties": {"headers": {"k" * 300: 1}}}
        answer = node.post(f"exchanges/{vhost}/amq.default/publish", body)
        assert answer.status == 400

    def test_much_besides_the_texts_is_refused(self, node, vhost):
        answer = node.put(f"vhosts/{vhost}", {"description": "d" * STRUCTURE_BYTES_MAX})
        assert answer.status == 400
        assert str(STRUCTURE_BYTES_MAX) in answer.body["reason"]

    NULL = {"arguments": {"a": None}}

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("PUT", "queues/{v}/new", NULL),
            ("PUT", "exchanges/{v}/new", NULL),
            ("POST", "bindings/{v}/e/amq.topic/q/there", NULL),
            ("POST", "bindings/{v}/e/amq.topic/e/amq.direct", NULL),
            ("POST", "exchanges/{v}/amq.topic/publish", PUBLISH | {"properties": 5}),
        ],
    )
    def test_permissions_are_checked_before_anything_is_converted(
        self, node, vhost, method, path, body
    ):
        node.put(f"queues/{vhost}/there")
        node.put(f"users/{vhost}-nobody", {"password": "p", "tags": "management"})
        node.put(f"permissions/{vhost}/{vhost}-nobody", {"configure": "", "write": "", "read": ""})
        answer = node.request(method, path.format(v=vhost), body, user=f"{vhost}-nobody:p")
        node.delete(f"users/{vhost}-nobody")
        assert (answer.status, answer.body["reason"]) == (401, "Access refused.")
