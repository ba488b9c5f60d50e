"""The kinds of objects: their paths in the API, and what commands take for them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Listed(NamedTuple):
    """A list. columns: a table's if none are chosen; json: the columns that are shown as JSON."""

    in_vhost: bool = False
    columns: tuple[str, ...] = ()
    json: tuple[str, ...] = ()


class ObjectForm(NamedTuple):
    """A command's NAME=VALUE arguments. path: in the API. required: one of each tuple is needed.

    optional: names and defaults; None is not sent. json: the names whose values are JSON.
    """

    path: str
    required: tuple[tuple[str, ...], ...]
    optional: dict[str, Any] = {}
    json: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """All names."""
        return {name for some in self.required for name in some} | set(self.optional)

    def usage(self) -> str:
        """Return the arguments as help shows them."""
        words = [" OR ".join(f"{name}=..." for name in some) for some in self.required]
        if self.optional:
            words.append("[" + " ".join(f"{name}=..." for name in self.optional) + "]")
        return " ".join(words)


def need(*names: str) -> tuple[tuple[str, ...], ...]:
    """Return a tuple for each name: all of them are required."""
    return tuple((name,) for name in names)


LISTS = {
    "connections": Listed(columns=("name", "user", "channels")),
    "channels": Listed(columns=("name", "user")),
    "consumers": Listed(in_vhost=True),
    "exchanges": Listed(in_vhost=True, columns=("name", "type")),
    "queues": Listed(in_vhost=True, columns=("name", "messages")),
    "bindings": Listed(in_vhost=True, columns=("source", "destination", "routing_key")),
    "users": Listed(),
    "vhosts": Listed(columns=("name", "messages")),
    "permissions": Listed(),
    "nodes": Listed(columns=("name", "type", "mem_used")),
    "parameters": Listed(json=("value",)),
    "policies": Listed(json=("definition",)),
    "operator_policies": Listed(json=("definition",)),
    "vhost_limits": Listed(json=("value",)),
}
SHOWN = {
    "overview": Listed(
        columns=("rabbitmq_version", "cluster_name", "queue_totals.messages",
                 "object_totals.queues")
    )
}  # fmt: skip
BINDING = "/bindings/{vhost}/e/{source}/{kind}/{destination}"
POLICY = (need("name", "pattern", "definition"), {"priority": 0, "apply-to": None},
          ("definition", "priority"))  # fmt: skip
DECLARED = {
    "exchange": ObjectForm("/exchanges/{vhost}/{name}", need("name", "type"),
                     {"auto_delete": "false", "durable": "true", "internal": "false",
                      "arguments": {}}, ("arguments",)),
    "queue": ObjectForm("/queues/{vhost}/{name}", need("name"),
                  {"auto_delete": "false", "durable": "true", "arguments": {}, "node": None,
                   "queue_type": None}, ("arguments",)),
    "binding": ObjectForm(BINDING, need("source", "destination"),
                    {"destination_type": "queue", "routing_key": "", "arguments": {}},
                    ("arguments",)),
    "vhost": ObjectForm("/vhosts/{name}", need("name"), {"tracing": None}),
    "user": ObjectForm("/users/{name}", (("name",), ("password", "password_hash"), ("tags",)),
                 {"hashing_algorithm": None}),
    "permission": ObjectForm("/permissions/{vhost}/{user}",
                       need("vhost", "user", "configure", "write", "read")),
    "parameter": ObjectForm("/parameters/{component}/{vhost}/{name}",
                      need("component", "name", "value"), {}, ("value",)),
    "policy": ObjectForm("/policies/{vhost}/{name}", *POLICY),
    "operator_policy": ObjectForm("/operator-policies/{vhost}/{name}", *POLICY),
    "vhost_limit": ObjectForm("/vhost-limits/{vhost}/{name}", need("vhost", "name", "value"), {},
                        ("value",)),
}  # fmt: skip
DELETED = {
    **{kind: ObjectForm(DECLARED[kind].path, need("name"))
       for kind in ("exchange", "queue", "vhost", "user", "policy", "operator_policy")},
    "binding": ObjectForm(BINDING + "/{properties_key}",
                    need("source", "destination_type", "destination"), {"properties_key": "~"}),
    "permission": ObjectForm(DECLARED["permission"].path, need("vhost", "user")),
    "parameter": ObjectForm(DECLARED["parameter"].path, need("component", "name")),
    "vhost_limit": ObjectForm(DECLARED["vhost_limit"].path, need("vhost", "name")),
}  # fmt: skip
CLOSED = {"connection": ObjectForm("/connections/{name}", need("name"))}
PURGED = {"queue": ObjectForm("/queues/{vhost}/{name}/contents", need("name"))}
PUBLISH = ObjectForm("/exchanges/{vhost}/{exchange}/publish", need("routing_key"),
               {"payload": None, "properties": {}, "exchange": "amq.default",
                "payload_encoding": "string"}, ("properties",))  # fmt: skip
GET = ObjectForm("/queues/{vhost}/{queue}/get", need("queue"),
           {"count": "1", "ackmode": "ack_requeue_true", "payload_file": None,
            "encoding": "auto"})  # fmt: skip
DONE = {"declare": "declared", "delete": "deleted", "close": "closed", "purge": "purged"}
FORMS = {"declare": DECLARED, "delete": DELETED, "close": CLOSED, "purge": PURGED}
