"""Parameters of shovels and upstreams that are not valid are refused, without showing passwords.

That the texts are RabbitMQ's is compared with its recorded answers (test_against_rabbitmq.py).
"""

import pytest

SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://127.0.0.1:1"}


def test_definitions_with_a_wrong_shovel_are_refused(node, vhost):
    wrong = [
        {"component": "shovel", "name": "s", "value": {**SHOVEL, "foo": 1}},
        {"component": "federation-upstream-set", "name": "all", "value": [{}]},
    ]
    answer = node.post(f"definitions/{vhost}", {"parameters": wrong})
    assert answer.status == 400
    assert answer.body["problems"] == [
        {"path": "parameters[0].value", "reason":
         '<<"Validation failed\\n\\nUnrecognised terms [{&lt;&lt;\\"foo\\"&gt;&gt;,1}] in s\\n '
         f'({vhost}/shovel/s)">>'},
        {"path": "parameters[1].value", "reason":
         '<<"Validation failed\\n\\nKey \\"upstream\\" not found in all\\n '
         f'({vhost}/federation-upstream-set/all)">>'},
    ]  # fmt: skip
    assert node.get(f"parameters/federation-upstream-set/{vhost}") == []


def test_definitions_may_connect_a_shovel_to_any_vhost_of_the_node(node, vhost):
    """As in RabbitMQ, which asks only about the user of a single parameter."""
    shovel = {**SHOVEL, "src-uri": f"amqp:///{vhost}", "dest-uri": "amqp:///not%20yet"}
    parameters = [{"component": "shovel", "name": "s", "value": shovel}]
    answer = node.post(f"definitions/{vhost}?dry_run=true", {"parameters": parameters})
    assert (answer.status, answer.body.get("problems")) == (200, [])


@pytest.mark.parametrize(
    ("component", "value"),
    [
        ("shovel", {**SHOVEL, "src-uri": "amqp://anna:sesame%zz@h"}),
        ("shovel", {**SHOVEL, "src_uri": "amqp://anna:sesame@h"}),
        ("shovel", {**SHOVEL, "dest-uri": "amqps://h?password=sesame&depth=x"}),
        ("federation-upstream", {"uri": ["amqp://anna:sesame/word@h"]}),
        ("federation-upstream-set", [{"upstream": "u", "uri": "amqp://anna:sesame@h"}]),
    ],
)
def test_no_refusal_shows_a_password(component, value, node, vhost):
    answer = node.put(f"parameters/{component}/{vhost}/p", {"value": value})
    assert answer.status == 400
    assert "Validation failed" in answer.body["reason"]
    assert "sesame" not in f"{answer.body}{node.log}"


def test_no_log_shows_the_password_of_an_upstream(node, vhost):
    upstream = {"uri": "amqp://anna:sesame@127.0.0.1:1"}
    path = f"parameters/federation-upstream/{vhost}/u"
    assert node.put(path, {"value": upstream}).status == 201
    assert node.get(path)["value"] == upstream
    assert node.delete(path).status == 204
    assert "sesame" not in node.log
