"""Hooks of schemathesis for a run against a node (test_openapi.py).

Names in paths are those of existing objects as often as random ones. What a request deletes or
changes is restored after it by importing the initial definitions. Requests that would break the run
itself (its own user, its live clients) are skipped.
"""

import json
import os
import zlib
from collections import Counter
from urllib.parse import unquote

import requests
import schemathesis

from tests.mgmt.openapi_objects import CLIENTS_VHOST, DEFINITIONS, LOGIN
from tests.patience import PATIENCE_SECONDS

URL = os.environ["OPENAPI_API_URL"]
REAL: dict[str, list[str]] = json.loads(os.environ["OPENAPI_NAMES"])
SHARED = {
    "page", "page_size", "pagination", "name", "use_regex", "sort", "sort_reverse",
    "msg_rates_age", "msg_rates_incr", "data_rates_age", "data_rates_incr", "lengths_age",
    "lengths_incr", "node_stats_age", "node_stats_incr",
}  # fmt: skip
"""Query parameters of pages and samples (mgmt/api/listing.py, mgmt/statistics)."""
OPERATIONS_SHARING = 3
"""In this many operations each of them has all of its values."""


def restore():
    """Restore the initial definitions."""
    answer = requests.post(
        f"{URL}/definitions", json=DEFINITIONS, auth=LOGIN, timeout=PATIENCE_SECONDS
    )
    assert answer.status_code == 204, answer.text


def _name_real_things(item):
    for parameter in item.get("parameters", []):
        names = REAL.get(parameter["name"])
        if parameter.get("in") == "path" and names:
            parameter["examples"] = {name: {"value": name} for name in names}


def _without_shared(operation, seen):
    """Leave out parameters that all lists read in the same way, but of a few operations.

    The other run requests them of all operations.
    """
    kept = []
    for one in operation.get("parameters", []):
        is_shared = one.get("in") == "query" and one["name"] in SHARED
        seen[one["name"]] += is_shared
        if not is_shared or seen[one["name"]] <= OPERATIONS_SHARING:
            kept.append(one)
    if kept:
        operation["parameters"] = kept


def _without_columns(operation):
    """Request no columns, so that all required fields must be present.

    Each such answer also has a schema for answers with selected columns.
    """
    parameters = operation.get("parameters", [])
    if any(one["name"] == "columns" for one in parameters):
        operation["parameters"] = [one for one in parameters if one["name"] != "columns"]
        for content in operation["responses"]["200"]["content"].values():
            content["schema"]["anyOf"] = content["schema"]["anyOf"][::2]


@schemathesis.hook
def before_load_schema(context, raw_schema):
    seen = Counter()
    for item in raw_schema["paths"].values():
        _name_real_things(item)
        for method in item.keys() - {"parameters"} if "OPENAPI_WHOLE" in os.environ else ():
            _without_columns(item[method])
            _without_shared(item[method], seen)


def _ends_run(parameter, value):
    """Tell whether changing or deleting this would break the run."""
    kept = {"user": [LOGIN[0]], "vhost": [CLIENTS_VHOST], "connection": REAL["connection"]}
    return unquote(str(value)) in kept.get(parameter, ())


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Replace three of four generated names by existing ones, selected by the generated name."""
    chosen = {}
    is_asking = context.operation is not None and context.operation.method.upper() == "GET"
    for name, value in (path_parameters or {}).items():
        names = [one for one in REAL.get(name, ()) if is_asking or not _ends_run(name, one)]
        number = zlib.crc32(repr(value).encode())
        chosen[name] = names[number // 4 % len(names)] if names and number % 4 else value
    return chosen


@schemathesis.hook
def filter_case(context, case):
    """Tell whether the run can continue after this request."""
    if case.method.upper() == "GET":
        return True
    return not any(_ends_run(*one) for one in (case.path_parameters or {}).items())


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code < 300 and (case.method == "DELETE" or "-limits" in case.path):
        restore()


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Tell whether a failure counts.

    503 is the answer of a failed health check, and of a change of members without a cluster. If a
    parameter is repeated, its first value counts.
    """
    path = case.operation.path
    if response.status_code == 503 and ("/health/checks/" in path or "/replicas/" in path):
        return False
    is_repeated = any(isinstance(value, list | dict) for value in (case.query or {}).values())
    return not (is_repeated and failure.code == "ST201")
