"""Properties of messages, encoded for the load generator.

A kind of properties is a function from a number to a set of them; messages take the sets in turn.
The mark stands for a number in sixteen digits that no other message has; the generator writes it
when it sends a message. `celery` is what Celery 5 sent for `send_receipt.delay(8412,
"ann@example.org", copies=2)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika.spec import BasicProperties

MARK = "#" * 16
FORMS = 64
"""Number of sets; more of them would not fit a processor's cache together with the bodies."""
FIRST_TIME = 1_763_760_000
SERVICES = 20
TASK_ID = MARK + "-62b7-4302-a946-47fb"
"""Of the length of a UUID."""


def varied(number: int, is_durable: bool) -> dict[str, Any]:
    """Return what many programs set: a content type, two headers, an id and a time."""
    return {
        "content_type": "application/json",
        "headers": {"source": f"service-{number % SERVICES}", "attempt": number},
        "delivery_mode": 2 if is_durable else 1,
        "message_id": MARK + f"{number:016x}",
        "timestamp": FIRST_TIME + number,
    }


def three_headers(number: int, is_durable: bool) -> dict[str, Any]:
    """Return three headers: a text, a number and a truth value."""
    base = varied(number, is_durable)
    return {**base, "headers": {**base["headers"], "final": bool(number % 2)}}


def priorities(number: int, is_durable: bool) -> dict[str, Any]:
    """Return a priority from 0 to 9 as well."""
    return {**varied(number, is_durable), "priority": number % 10}


def expirations(number: int, is_durable: bool) -> dict[str, Any]:
    """Return an expiration of about a minute, in milliseconds, as well."""
    return {**varied(number, is_durable), "expiration": str(60_000 + number)}


def celery(number: int, is_durable: bool) -> dict[str, Any]:
    """Return the properties and headers of a task of Celery."""
    headers: dict[str, Any] = {
        "lang": "py", "task": "shop.tasks.send_receipt", "id": TASK_ID, "shadow": None, "eta": None,
        "expires": None, "group": None, "group_index": None, "retries": 0,
        "timelimit": [None, None], "root_id": TASK_ID, "parent_id": None,
        "argsrepr": f"({8000 + number}, 'ann@example.org')", "kwargsrepr": "{'copies': 2}",
        "origin": "gen26275@vm", "ignore_result": False, "replaced_task_nesting": 0,
        "stamped_headers": None, "stamps": {},
    }  # fmt: skip
    return {
        "content_type": "application/json", "content_encoding": "utf-8", "headers": headers,
        "delivery_mode": 2 if is_durable else 1, "priority": 0, "correlation_id": TASK_ID,
        "reply_to": "a886b4a9-3ef6-3194-8e4b-c7fe04c6d2c7",
    }  # fmt: skip


KINDS: dict[str, Callable[[int, bool], dict[str, Any]]] = {
    kind.__name__: kind for kind in (varied, three_headers, priorities, expirations, celery)
}


def encoded(kind: str, is_durable: bool) -> bytes:
    """Return the file for the generator: sets of properties, each after its length in two bytes."""
    sets = []
    for number in range(FORMS):
        pieces = b"".join(BasicProperties(**KINDS[kind](number, is_durable)).encode())
        sets.append(len(pieces).to_bytes(2, "big") + pieces)
    return b"".join(sets)
