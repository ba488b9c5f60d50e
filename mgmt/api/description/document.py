"""The OpenAPI document, made from the route table and the descriptions of the operations.

Every route must have an operation and every operation a route, so that exactly the served routes
are described. Routes of installed packages have no operation, and are left out.
"""

import inspect
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from leveret import __version__
from leveret.mgmt.api.description import (
    access,
    clients,
    declared,
    node_schemas,
    operations_access,
    operations_declared,
    operations_delayed,
    operations_links,
    operations_node,
    operations_retained,
    operations_retries,
    operations_standby,
    operations_trace_analyses,
    operations_traces,
    operations_unroutable,
)
from leveret.mgmt.api.description.operation import COLUMNS, JSON, Operation, page_of
from leveret.mgmt.api.description.schemas import NAME, TEXT, Schema, any_of, list_of, ref, some_of
from leveret.mgmt.api.routes import ROUTES, ApiRoute

OPERATIONS = {
    (one.method, one.path): one
    for part in (
        operations_declared,
        operations_delayed,
        operations_access,
        operations_node,
        operations_retained,
        operations_retries,
        operations_traces,
        operations_trace_analyses,
        operations_links,
        operations_standby,
        operations_unroutable,
    )
    for one in part.OPERATIONS
}
SCHEMAS: dict[str, Schema] = {
    **declared.SCHEMAS, **clients.SCHEMAS, **access.SCHEMAS, **node_schemas.SCHEMAS,
    **operations_retained.SCHEMAS, **operations_traces.SCHEMAS, **operations_links.SCHEMAS,
    **operations_delayed.SCHEMAS, **operations_retries.SCHEMAS, **operations_standby.SCHEMAS,
    **operations_unroutable.SCHEMAS, **operations_trace_analyses.SCHEMAS,
}  # fmt: skip
SOME = "Columns"
"""The suffix of schemas of objects with only some of their fields."""

_VARIABLE = re.compile(r"\{(\w+)\}")
_VARIABLES: dict[str, tuple[Schema, str]] = {
    "vhost": (NAME, "A vhost's name; / is %2F."),
    "node": (NAME, "The node's name."),
    "exchange": (NAME, "An exchange's name; amq.default is the default exchange."),
    "source": (NAME, "The exchange that is bound from; amq.default is the default exchange."),
    "destination": (NAME, "What is bound: a queue or an exchange."),
    "kind": (NAME, "What is bound: q, queue, e or exchange."),
    "props": (NAME, "The binding's properties_key."),
    "within": (NAME, "How many of the unit: digits."),
    "unit": (NAME, "days, weeks, months or years."),
    "port": (NAME, "A port: digits."),
}
_REASONS = {
    201: "The object was created.",
    204: "Done; the answer has no content.",
    400: "The request is not valid, or was refused.",
    401: "The login failed, or the user is not allowed to do this.",
    403: "A page of another site sent a form.",
    404: "There is no object of this name.",
    406: "The client does not accept JSON.",
    408: "The body did not arrive in time.",
    409: "Not possible in the present state of the node.",
    413: "The body is larger than 64,000 bytes.",
    500: "An internal error.",
    503: "A health check failed, or the broker is stopped on this node.",
}
_EVERYWHERE = (401, 406, 503)
_SECURITY = {
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "With auth_oauth2 only."},
}


def document(prefix: str, *, with_control: bool) -> dict[str, Any]:
    """The document. prefix: the path before `/api`. with_control: also the control socket's."""
    shown = [one for one in ROUTES if with_control or not one.control_only]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Leveret's HTTP API",
            "version": __version__,
            "description": "The HTTP API of RabbitMQ's management, and what Leveret adds to it.",
        },
        "servers": [{"url": f"{prefix}/api"}],
        "security": [{name: []} for name in _SECURITY],
        "paths": _paths(shown),
        "components": {"schemas": _schemas(), "securitySchemes": _SECURITY},
    }


@cache
def _schemas() -> dict[str, Schema]:
    partial = {f"{name}{SOME}": some_of(schema, SOME) for name, schema in SCHEMAS.items()}
    return {**SCHEMAS, **partial}


def _paths(routes: Iterable[ApiRoute]) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for one in routes:
        operation = OPERATIONS.get((one.method, one.path))
        if operation is not None:
            described = paths.setdefault(one.path, _path_parameters(one.path))
            described[one.method.lower()] = _operation(one, operation)
    return paths


def _path_parameters(path: str) -> dict[str, Any]:
    parameters = [
        {
            "name": name, "in": "path", "required": True,
            "schema": _VARIABLES.get(name, (NAME, ""))[0],
            "description": _VARIABLES.get(name, (NAME, f"The {name}."))[1],
        }
        for name in _VARIABLE.findall(path)
    ]  # fmt: skip
    return {"parameters": parameters} if parameters else {}


def _operation(route: ApiRoute, one: Operation) -> dict[str, Any]:
    words = re.findall(r"\w+", f"{route.method.lower()} {route.path}")
    described: dict[str, Any] = {
        "operationId": "_".join(words),
        "summary": (inspect.getdoc(route.handler) or "").partition("\n")[0],
        "tags": [one.tag],
        "responses": _responses(route, one),
    }
    parameters = [*one.parameters, *([COLUMNS] if one.columns else [])]
    if parameters:
        described["parameters"] = [
            {"name": parameter.name, "in": parameter.place, "schema": parameter.schema}
            for parameter in parameters
        ]
    if one.body is not None:
        described["requestBody"] = {"content": {one.body_type: {"schema": one.body}}}
    if route.is_open or route.control_only:
        described["security"] = []
    return described


def _responses(route: ApiRoute, one: Operation) -> dict[str, Any]:
    expected = {*one.statuses, *_EVERYWHERE, *((403,) if one.method == "POST" else ())}
    expected |= {408} if one.body is not None else set()
    responses: dict[str, Any] = {}
    if one.answer is not None:
        content = {kind: {"schema": _answer(one)} for kind in one.answer_type.split()}
        responses["200"] = {"description": "What was asked for.", "content": content}
    elif one.makes:
        responses["201"] = {"description": _REASONS[201], "headers": _LOCATION}
    elif one.method == "PUT":
        expected |= {201, 204}
    else:
        expected.add(204)
    for status in sorted(expected):
        responses[str(status)] = _refusal(status, one)
    return responses


def _answer(one: Operation) -> Schema:
    """The schema of 200: an object, or its requested columns; a list, or a page of it."""
    assert one.answer is not None
    wanted = [one.answer, some_of(one.answer, SOME)] if one.columns else [one.answer]
    if not one.paged:
        return any_of(*wanted) if len(wanted) > 1 else one.answer
    return any_of(*map(list_of, wanted), *map(page_of, wanted))


_LOCATION = {
    "Location": {"schema": TEXT, "required": True, "description": "Where it is, from here."}
}


def _refusal(status: int, one: Operation) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _REASONS[status]}
    if status in (201, 204, 406):
        return response
    schema = ref("Error")
    if status == 503 and one.tag == "health":
        schema = any_of(ref("Failed"), ref("Error"))
    return {**response, "content": {JSON: {"schema": schema}}}
