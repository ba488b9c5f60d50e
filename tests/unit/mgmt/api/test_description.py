"""The description of the HTTP API contains exactly the served routes."""

import itertools
import json
import re

import jsonschema
import pytest

from leveret.mgmt.api.description.document import OPERATIONS, SCHEMAS, document
from leveret.mgmt.api.description.schemas import COUNT, PREFIX, TEXT, record, ref, some_of
from leveret.mgmt.api.resources import RESOURCES
from leveret.mgmt.api.routes import ROUTES

assert RESOURCES
DOCUMENT = document("", with_control=True)


def operations(described):
    for path, item in described["paths"].items():
        for method in item.keys() - {"parameters"}:
            yield method, path, item[method]


def references(value):
    """Return all references within a value."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = value.values()
    if not isinstance(value, str) and hasattr(value, "__iter__"):
        yield from itertools.chain.from_iterable(map(references, value))


def test_every_route_is_described_and_every_description_is_of_a_route():
    routes = {(one.method, one.path) for one in ROUTES}
    assert routes - set(OPERATIONS) == set()
    assert set(OPERATIONS) - routes == set()


def test_no_route_is_there_twice():
    seen = [(one.method, one.path) for one in ROUTES]
    assert [one for one in seen if seen.count(one) > 1] == []


def test_the_control_sockets_routes_are_described_there_only():
    shown = document("/broker", with_control=False)
    assert shown["servers"] == [{"url": "/broker/api"}]
    assert "/overview" in shown["paths"]
    assert [path for path in shown["paths"] if path.startswith("/node/")] == []
    assert "/node/status" in DOCUMENT["paths"]


def test_all_references_exist_and_all_components_are_referred_to():
    there = {f"{PREFIX}{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) - there == set()
    unused = {f"{PREFIX}{name}" for name in SCHEMAS} - set(references(DOCUMENT))
    assert unused == set()


@pytest.mark.parametrize("name", sorted(DOCUMENT["components"]["schemas"]))
def test_schemas_are_schemas(name):
    schema = DOCUMENT["components"]["schemas"][name]
    jsonschema.Draft202012Validator.check_schema(schema)


def test_operations_have_names_and_summaries_of_their_own():
    names = [one["operationId"] for _, _, one in operations(DOCUMENT)]
    assert len(names) == len(set(names))
    assert [one["operationId"] for _, _, one in operations(DOCUMENT) if not one["summary"]] == []


def test_parameters_in_paths_are_those_of_the_paths():
    for path, item in DOCUMENT["paths"].items():
        listed = [one["name"] for one in item.get("parameters", [])]
        assert listed == re.findall(r"{(\w+)}", path)


def test_what_needs_no_login_says_so():
    is_open = {path for _, path, one in operations(document("", with_control=False))
               if one.get("security") == []}  # fmt: skip
    assert is_open == {one.path for one in ROUTES if one.is_open}


def test_it_can_be_said_in_json():
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT


def test_of_an_object_with_columns_nothing_is_required():
    whole = record({"name": TEXT, "details": record({"rate": COUNT}), "one": ref("Queue")})
    assert some_of(whole, "Columns") == {
        "type": "object",
        "properties": {
            "name": TEXT,
            "details": {
                "type": "object", "properties": {"rate": COUNT}, "additionalProperties": False
            },
            "one": ref("QueueColumns"),
        },
        "additionalProperties": False,
    }  # fmt: skip
