"""The notation of requests in scenarios: `get("queues/{v}")`, `put("vhosts/{v}", {...})`.

In paths and bodies `{v}` stands for the scenario's own vhost; the preparation of a scenario adds
further names, such as `{connection}`. A user is named by its tag (see state.py).
"""

import json
from typing import Any, NamedTuple

PREFIX = "golden"
"""Prefix of all names created for a recording."""


TITLE_MAX = 160


class Request(NamedTuple):
    """A request.

    ordered: the order of lists matters. settles: the answer becomes correct some time after the
    preceding requests. types_only: it describes the whole node, and nodes differ.
    """

    method: str
    path: str
    body: Any = None
    user: str | None = "guest"
    headers: dict[str, str] = {}
    ordered: bool = False
    settles: bool = False
    types_only: bool = False

    @property
    def changes(self) -> bool:
        """It may change something, at least statistics."""
        return self.method in ("PUT", "POST", "DELETE")

    def title(self) -> str:
        """Its identification in a recording."""
        words = [self.method, self.path]
        if self.body is not None:
            words.append(self.body.decode() if isinstance(self.body, bytes) else _json(self.body))
        if self.user != "guest":
            words.append(f"as {self.user}")
        words += [f"{name}: {value}" for name, value in self.headers.items()]
        return " ".join(words)[:TITLE_MAX]


def get(path: str, **options: Any) -> Request:
    return Request("GET", path, **options)


def put(path: str, body: Any = None, **options: Any) -> Request:
    return Request("PUT", path, {} if body is None else body, **options)


def post(path: str, body: Any = None, **options: Any) -> Request:
    return Request("POST", path, {} if body is None else body, **options)


def delete(path: str, **options: Any) -> Request:
    return Request("DELETE", path, **options)


def head(path: str, **options: Any) -> Request:
    return Request("HEAD", path, **options)


def options_of(path: str, **options: Any) -> Request:
    return Request("OPTIONS", path, **options)


def filled(value: Any, names: dict[str, str]) -> Any:
    """Insert names for the placeholders."""
    if isinstance(value, str):
        for name, found in names.items():
            value = value.replace("{" + name + "}", found)
        return value
    if isinstance(value, bytes):
        return filled(value.decode(), names).encode()
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {filled(key, names): filled(item, names) for key, item in value.items()}
    return value


def emptied(value: Any, names: dict[str, str]) -> Any:
    """Replace names by placeholders, so that recordings of two brokers are equal."""
    if isinstance(value, str):
        for name, found in names.items():
            value = value.replace(found, "{" + name + "}")
        return value
    if isinstance(value, list):
        return [emptied(item, names) for item in value]
    if isinstance(value, dict):
        return {emptied(key, names): emptied(item, names) for key, item in value.items()}
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
