"""Imports of definitions are complete or refused, and do not block other requests."""

import pytest

QUEUE = {"durable": True, "auto_delete": False}

WRONG = {
    "queues": [
        {"name": "good", **QUEUE, "arguments": {"x-max-length": 5}},
        {"name": "long", **QUEUE, "arguments": {"x-max-length": "5", "x-max-priority": 300}},
        {"durable": True},
        {"name": "null", **QUEUE, "arguments": {"x-other": None}},
    ],
    "exchanges": [
        {"name": "good", "type": "topic", "durable": True},
        {"name": "odd", "type": "nonsense", "durable": True},
        {"name": "half", "type": "direct", "durable": "yes"},
    ],
    "bindings": [
        {"source": "good", "destination": "good", "destination_type": "queue"},
        {"source": "nowhere", "destination": "good", "destination_type": "queue"},
        {"source": "amq.direct", "destination": "lost", "destination_type": "exchange"},
    ],
    "policies": [
        {"name": "p", "pattern": "(", "definition": {"max-length": 5}},
        {"name": "q", "pattern": ".*", "definition": {"max-length": -1}},
        {"name": "good", "pattern": ".*", "definition": {"max-length": 5}},
    ],
    "parameters": [{"component": "nonsense", "name": "x", "value": 1}],
}
PATHS = [
    "parameters[0].component",
    "policies[0].pattern",
    "policies[1].definition.max-length",
    "exchanges[1].type",
    "exchanges[2].durable",
    "queues[1].arguments.x-max-length",
    "queues[1].arguments.x-max-priority",
    "queues[2].name",
    "queues[3].arguments.x-other",
    "bindings[1].source",
    "bindings[2].destination",
]


def test_of_a_half_wrong_file_nothing_is_imported_and_every_problem_is_told(node, vhost):
    before = node.get(f"definitions/{vhost}")
    answer = node.post(f"definitions/{vhost}", WRONG)
    assert answer.status == 400
    assert [problem["path"] for problem in answer.body["problems"]] == PATHS
    assert answer.body["reason"] == answer.body["problems"][0]["reason"]
    assert node.get(f"definitions/{vhost}") == before


def test_a_dry_run_tells_the_same_problems(node, vhost):
    answer = node.post(f"definitions/{vhost}?dry_run=true", WRONG)
    assert answer.status == 200
    assert [problem["path"] for problem in answer.body["problems"]] == PATHS


@pytest.mark.parametrize(
    ("definitions", "path", "reason"),
    [
        ({"users": [{"name": "u", "password": 5}]}, "users[0].password", "should be a text"),
        ({"users": [{"name": "u", "password_hash": "!"}]}, "users[0].password_hash",
         ["not_base64", "password_hash"]),
        ({"users": [{"name": "u", "limits": {"max-channels": "1"}}]},
         "users[0].limits.max-channels",
         'Validation failed\n\nmax-channels should be a number, actually was <<"1">>\n'),
        ({"permissions": [{"user": "nobody", "vhost": "/", "configure": "", "write": "",
                           "read": ""}]}, "permissions[0].user", ["no_such_user", "nobody"]),
        ({"permissions": [{"user": "guest", "vhost": "/", "configure": "", "write": ""}]},
         "permissions[0].read", "is missing"),
        ({"users": [{"tags": []}]}, "users[0].name", "is missing"),
        ({"queues": [{"vhost": "/", "name": 5}]}, "queues[0].name", "should be a text"),
        ({"queues": [5]}, "queues[0]", "should be an object"),
        ({"queues": "none"}, "queues", "should be a list of objects"),
        ({"queues": [{"name": "q", "vhost": "nowhere", **QUEUE}]}, "queues[0].vhost",
         ["no_such_vhost", "nowhere"]),
        ({"vhosts": [{"name": ""}]}, "vhosts[0].name", "a vhost's name must not be empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_an_error_has_its_path(node, definitions, path, reason):
    answer = node.post("definitions", definitions)
    assert answer.status == 400
    assert answer.body["problems"] == [{"path": path, "reason": reason}]


def test_what_a_file_declares_may_be_used_in_it(node, vhost):
    new = f"{vhost}-new"
    definitions = {
        "vhosts": [{"name": new}],
        "users": [{"name": "eve", "tags": ""}],
        "permissions": [
            {"user": "eve", "vhost": new, "configure": "", "write": "", "read": ".*"}
        ],
        "exchanges": [{"name": "x", "vhost": new, "type": "headers", "durable": True}],
        "queues": [{"name": "q", "vhost": new, **QUEUE}],
        "bindings": [{
            "source": "x", "vhost": new, "destination": "q", "destination_type": "queue",
            "routing_key": "", "arguments": {"x-match": "any", "kind": "a"},
        }],
    }  # fmt: skip
    assert node.post("definitions", definitions).status == 204
    assert node.get(f"definitions/{new}")["bindings"][0]["arguments"]["kind"] == "a"
    assert node.delete("users/eve").status == 204
    assert node.delete(f"vhosts/{new}").status == 204


def test_the_first_of_duplicate_declarations_and_the_last_of_duplicate_settings_count(node, vhost):
    kept = {"max-length": 1}
    two = [
        {"name": "q", **QUEUE, "arguments": {"x-max-length": 1}},
        {"name": "q", **QUEUE, "arguments": {"x-max-length": 2}},
    ]
    exchanges = [{"name": "x", "type": kind, "durable": True} for kind in ("direct", "fanout")]
    policies = [
        {"name": "p", "pattern": pattern, "definition": kept} for pattern in ("^first", "^last")
    ]
    definitions = {"queues": two, "exchanges": exchanges, "policies": policies}
    assert node.post(f"definitions/{vhost}", definitions).status == 204
    assert node.get(f"queues/{vhost}/q")["arguments"] == {"x-max-length": 1}
    assert node.get(f"exchanges/{vhost}/x")["type"] == "direct"
    assert node.get(f"policies/{vhost}/p")["pattern"] == "^last"


def test_very_many_queues_are_imported_at_once(node, vhost):
    queues = [{"name": f"q{number}", **QUEUE, "arguments": {}} for number in range(10_000)]
    assert node.post(f"definitions/{vhost}", {"queues": queues}).status == 204
    page = node.get(f"queues/{vhost}?page=100&page_size=100&sort=name&sort_reverse=true")
    assert page["total_count"] == 10_000
    assert page["items"][-1]["name"] == "q0"
