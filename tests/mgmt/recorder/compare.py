"""Compares an answer with a recorded one, and describes the differences in lines.

Recorded keys must be present, others may be; values must be equal, or of the recorded type. Items
of lists are matched by what identifies them, unless order matters.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.mgmt.recorder.normal import EACH, is_type, type_name

IDENTIFYING = (
    "vhost", "component", "upstream", "source", "destination", "destination_type", "user",
    "exchange", "name", "routing_key", "properties_key", "consumer_tag", "payload",
)  # fmt: skip


def differences(expected: Any, found: Any, where: str, ordered: bool = False) -> Iterator[str]:
    """Return one line for each difference."""
    if isinstance(expected, dict) and EACH in expected:
        yield from _each(expected[EACH], found, where)
    elif isinstance(expected, dict):
        yield from _of_objects(expected, found, where, ordered)
    elif isinstance(expected, list):
        yield from _of_lists(expected, found, where, ordered)
    elif is_type(expected):
        if not _has_type(found, expected):
            yield f"{where}: {_shown(found)} instead of {expected}"
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):
        yield f"{where}: {_shown(found)} instead of {_shown(expected)}"


def _has_type(value: Any, expected: str) -> bool:
    if expected in ("<any>", "<object>", "<list>"):
        kinds = {"<any>": object, "<object>": dict, "<list>": list}
        return isinstance(value, kinds[expected])
    return not isinstance(value, dict | list) and type_name(value) == expected


def _each(expected: Any, found: Any, where: str) -> Iterator[str]:
    if not isinstance(found, list):
        yield f"{where}: {_shown(found)} instead of a list"
    elif found:
        yield from differences(expected, found[0], f"{where}[0]")


def _of_objects(expected: dict[str, Any], found: Any, where: str, ordered: bool) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"{where}: {_shown(found)} instead of an object with {', '.join(expected)}"
        return
    for key, value in expected.items():
        place = f"{where}.{key}"
        if key in found:
            yield from differences(value, found[key], place, ordered)
        else:
            yield f"{place}: missing; {_shown(value)} was expected"


def _of_lists(expected: list[Any], found: Any, where: str, ordered: bool) -> Iterator[str]:
    if not isinstance(found, list):
        yield f"{where}: {_shown(found)} instead of a list"
    elif ordered or not all(isinstance(item, dict) for item in expected):
        yield from _in_order(expected, found, where, ordered)
    else:
        yield from _by_identity(expected, found, where)


def _in_order(expected: list[Any], found: list[Any], where: str, ordered: bool) -> Iterator[str]:
    wanted, there = ([identity(item) for item in items] for items in (expected, found))
    if len(wanted) != len(there) or (ordered and wanted != there):
        yield f"{where}: {_shown(there)} instead of {_shown(wanted)}"
        return
    for place, (one, other) in enumerate(zip(expected, found, strict=True)):
        yield from differences(one, other, f"{where}[{place}]", ordered)


def _by_identity(expected: list[Any], found: list[Any], where: str) -> Iterator[str]:
    left: dict[str, list[Any]] = {}
    for item in found:
        left.setdefault(identity(item), []).append(item)
    for item in expected:
        place = f"{where}[{identity(item)}]"
        same = left.get(identity(item))
        if same:
            yield from differences(item, same.pop(0), place)
        else:
            yield f"{place}: missing"
    for name, items in left.items():
        if items:
            yield f"{where}[{name}]: there, but not in RabbitMQ's answer"


def identity(item: Any) -> str:
    """Return what distinguishes an item of a list from the others."""
    if not isinstance(item, dict):
        return _shown(item)
    parts = [str(item[key]) for key in IDENTIFYING if key in item and not is_type(item[key])]
    if "source" in item:
        parts.append(json.dumps(item.get("arguments"), sort_keys=True))
    if isinstance(item.get("queue"), dict):
        parts.append(str(item["queue"].get("name")))
    return " ".join(parts)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
