"""The functions that make the schemas of the description.

A schema is a JSON Schema, as in OpenAPI 3.1. Schemas that are used in several places have a name
and are referred to (`ref`). A record has the listed fields and no others, unless it is open.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
FLAG: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
OBJECT: Schema = {"type": "object"}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
TIME: Schema = {"type": "string", "format": "date-time"}

PREFIX = "#/components/schemas/"


def ref(name: str) -> Schema:
    """The schema of this name."""
    return {"$ref": PREFIX + name}


def one_of(*values: str) -> Schema:
    """One of these strings."""
    return {"type": "string", "enum": list(values)}


def any_of(*schemas: Schema) -> Schema:
    """A value that matches at least one of these schemas."""
    return {"anyOf": list(schemas)}


def nullable(schema: Schema) -> Schema:
    """A value that matches the schema, or null."""
    return any_of(schema, NULL)


def list_of(schema: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": schema}


def mapping(schema: Schema) -> Schema:
    """An object with any names, whose values match the schema."""
    return {"type": "object", "additionalProperties": schema}


def record(
    required: Mapping[str, Schema],
    optional: Mapping[str, Schema] | None = None,
    *,
    is_open: bool = False,
) -> Schema:
    """An object with these fields. is_open: other fields are allowed, and ignored."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    if not is_open:
        schema["additionalProperties"] = False
    return schema


def body(
    required: Mapping[str, Schema] | None = None, optional: Mapping[str, Schema] | None = None
) -> Schema:
    """The body of a request. Unknown fields are allowed, as in RabbitMQ.

    If no field is required, the body may also be null or empty.
    """
    content = record(required or {}, optional, is_open=True)
    return content if required else nullable(content)


def described(schema: Schema, text: str) -> Schema:
    """The schema with a description of its meaning."""
    return {**schema, "description": text}


def counted(*names: str) -> dict[str, Schema]:
    """The fields of counters, each with a field for its rate."""
    fields: dict[str, Schema] = {}
    for name in names:
        fields[name] = COUNT
        fields[f"{name}_details"] = ref("Rate")
    return fields


def some_of(schema: Schema, suffix: str) -> Schema:
    """The schema of an object of which only some columns were requested.

    suffix: is added to the names of the schemas that it refers to, which are changed likewise.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"] + suffix}
    if "anyOf" in schema:
        return {"anyOf": [some_of(one, suffix) for one in schema["anyOf"]]}
    if schema.get("type") != "object":
        return schema
    partial = {key: value for key, value in schema.items() if key != "required"}
    if "properties" in schema:
        partial["properties"] = {
            name: some_of(one, suffix) for name, one in schema["properties"].items()
        }
    return partial
