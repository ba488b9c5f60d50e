"""Definitions exported by RabbitMQ: created over its API, stored in golden/definitions.json.

python -m tests.mgmt.recorder.definitions --http-port 15672
"""

import argparse
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.mgmt.recorder.broker import Broker

PREFIX = "defs"
PATH = Path(__file__).parents[1] / "golden" / "definitions.json"
WILD = "wild / ünïcödé %2F"
"""A name that must be encoded everywhere."""

DEFINITIONS: dict[str, Any] = {
    "vhosts": [
        {"name": "defs-a", "metadata": {"description": "The first", "tags": ["one", "two"]}},
        {"name": f"defs-{WILD}", "metadata": {"description": "", "tags": []}},
    ],
    "global_parameters": [{"name": "defs", "value": {"a": [1, "b", {"c": None}], "d": 1.5}}],
}

REQUESTS: list[tuple[str, str, Any]] = [
    ("PUT", "users/defs-plain", {"password": "secret", "tags": "monitoring,of-our-own"}),
    ("PUT", "users/defs-sha512", {
        "password_hash": "7q9sFtvmNY4KwsZOQdyyLYIX8V5Yn2rVw0xiFnO5rD7cEHXbbL3fOzUkvTV8u/"
                         "YHNQXf3wJrnLAtsyJzMVcRTmAq0S4=",
        "hashing_algorithm": "rabbit_password_hashing_sha512", "tags": "administrator"}),
    ("PUT", "users/defs-without", {"tags": ""}),
    ("PUT", "user-limits/defs-plain/max-channels", {"value": 5}),
    ("PUT", "user-limits/defs-plain/max-connections", {"value": -1}),
    ("PUT", "permissions/{a}/defs-plain", {"configure": "^$", "write": ".*", "read": "^a|b$"}),
    ("PUT", "permissions/{wild}/defs-without", {"configure": "", "write": "", "read": ""}),
    ("PUT", "topic-permissions/{a}/defs-plain",
     {"exchange": "amq.topic", "write": "^a", "read": "^{username}"}),
    ("PUT", "vhost-limits/{a}/max-queues", {"value": 100}),
    ("PUT", "vhost-limits/{wild}/max-connections", {"value": 0}),
    ("PUT", "policies/{a}/short", {
        "pattern": "^q", "apply-to": "queues", "priority": 7,
        "definition": {"max-length": 5, "overflow": "reject-publish", "message-ttl": 1000}}),
    ("PUT", "policies/{wild}/" + quote(WILD, safe=""), {
        "pattern": ".*", "apply-to": "exchanges",
        "definition": {"alternate-exchange": "amq.fanout"}}),
    ("PUT", "operator-policies/{a}/cap", {
        "pattern": "", "apply-to": "queues", "priority": 1, "definition": {"max-length": 3}}),
    *[("PUT", f"exchanges/{{a}}/x-{kind}", {
        "type": kind, "durable": True, "arguments": {"alternate-exchange": "x-fanout"}})
      for kind in ("direct", "fanout", "topic", "headers")],
    ("PUT", "exchanges/{a}/inner", {"type": "topic", "durable": True, "internal": True}),
    ("PUT", "exchanges/{wild}/" + quote(WILD, safe=""),
     {"type": "direct", "durable": True, "auto_delete": False}),
    ("PUT", "queues/{a}/q-plain", {"durable": True}),
    ("PUT", "queues/{a}/q-arguments", {"durable": True, "arguments": {
        "x-max-length": 10, "x-max-length-bytes": 1000, "x-message-ttl": 60000,
        "x-expires": 3600000, "x-dead-letter-exchange": "x-topic",
        "x-dead-letter-routing-key": "dead", "x-max-priority": 5, "x-queue-mode": "lazy",
        "x-overflow": "drop-head", "x-single-active-consumer": True,
        "x-mine": {"nested": [1, "two", True, 2.5]}}}),
    ("PUT", "queues/{a}/q-fleeting", {"durable": False, "auto_delete": True}),
    ("PUT", "queues/{wild}/" + quote(WILD, safe=""), {"durable": True}),
    ("POST", "bindings/{a}/e/x-direct/q/q-plain", {"routing_key": "key"}),
    ("POST", "bindings/{a}/e/x-direct/q/q-plain", {"routing_key": ""}),
    ("POST", "bindings/{a}/e/x-headers/q/q-arguments",
     {"routing_key": "", "arguments": {"x-match": "any", "kind": "a", "number": 5}}),
    ("POST", "bindings/{a}/e/x-topic/e/inner", {"routing_key": "a.#.*"}),
    ("POST", "bindings/{a}/e/amq.topic/q/q-fleeting", {"routing_key": "#"}),
    ("POST", "bindings/{wild}/e/{w}/q/{w}", {"routing_key": WILD}),
]  # fmt: skip


def ours(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the objects created here, without versions, in a fixed order."""
    kept = {}
    for name, items in definitions.items():
        if isinstance(items, list):
            chosen = [item for item in items if _is_ours(item)]
            kept[name] = sorted(chosen, key=lambda item: json.dumps(item, sort_keys=True))
    return kept


def _is_ours(item: dict[str, Any]) -> bool:
    return str(item.get("vhost", item.get("name"))).startswith(PREFIX)


def clean(broker: Broker) -> None:
    """Delete the objects created here."""
    for vhost in DEFINITIONS["vhosts"]:
        broker.ask("DELETE", f"vhosts/{quote(vhost['name'], safe='')}")
    for user in ("plain", "sha512", "without"):
        broker.ask("DELETE", f"users/defs-{user}")
    broker.ask("DELETE", "global-parameters/defs")


def make(broker: Broker) -> None:
    """Create all objects."""
    _succeed(broker, "POST", "definitions", DEFINITIONS)
    names = {"{a}": "defs-a", "{wild}": f"defs-{WILD}", "{w}": WILD}
    for method, path, body in REQUESTS:
        place = path
        for mark, name in names.items():
            place = place.replace(mark, quote(name, safe=""))
        _succeed(broker, method, place, body)


def _succeed(broker: Broker, method: str, path: str, body: Any) -> None:
    answer = broker.ask(method, path, body)
    assert answer.status in (201, 204), f"{method} {path}: {answer}"


def main() -> None:
    """Record the definitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http-port", type=int, default=15672)
    broker = Broker(0, parser.parse_args().http_port)
    clean(broker)
    make(broker)
    found = ours(broker.ask("GET", "definitions").body)
    PATH.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    clean(broker)
    broker.close()


if __name__ == "__main__":
    main()
