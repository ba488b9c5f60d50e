"""What nodes send each other is understood by the version before, or is not sent to it."""

import importlib
import json
import pkgutil

import msgspec
import pytest

import leveret.cluster
from leveret.cluster.node.node_features import FEATURES
from leveret.cluster.quorum.machine.commands import (
    ANNOTATIONS_FEATURE,
    DEDUPLICATION_FEATURE,
    ON_TIME_FEATURE,
    QUORUM_RETRIES_FEATURE,
    QUORUM_TIMES_FEATURE,
)
from tests.wire_shapes import RECORDED, SENT, differences, shapes

GATED = {
    "cluster.quorum.machine.commands:_DECODER has the kind 11": ANNOTATIONS_FEATURE,
    "cluster.quorum.machine.commands:_DECODER has the kind 13": DEDUPLICATION_FEATURE,
    "cluster.quorum.machine.commands:_DECODER has the kind 14": QUORUM_TIMES_FEATURE,
    "cluster.quorum.machine.commands:_DECODER has the kind 28": ON_TIME_FEATURE,
    "cluster.quorum.machine.commands:_DECODER has the kind 27": QUORUM_RETRIES_FEATURE,
}
"""Differences that the version before does not understand, and the feature without which a node is
not sent them."""
NOT_SENT = {"cluster.partitions.leftovers.records:_decoder"}
"""Decoders of files."""


def test_nodes_of_the_version_before_understand_what_they_are_sent():
    """Add a field at the end, with a default. Send a new kind to nodes with a feature only."""
    recorded = json.loads(RECORDED.read_text())
    now = shapes()
    assert now.keys() == set(SENT), "a name in SENT is wrong"
    found = [
        sentence for name in SENT if name in recorded
        for sentence in differences(recorded[name], now[name], name)
    ]  # fmt: skip
    assert sorted(found) == sorted(GATED)
    assert FEATURES.issuperset(GATED.values())


def test_all_decoders_of_the_nodes_are_known():
    found = {
        f"{module.__name__.removeprefix('leveret.')}:{name}"
        for module in all_modules(leveret.cluster)
        for name, value in vars(module).items()
        if isinstance(getattr(value, "__self__", value), msgspec.msgpack.Decoder)
    }
    assert found <= {*SENT, *NOT_SENT}


def all_modules(package):
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return map(importlib.import_module, names)


POINT = ["array", None, None, [["x", True, "int"], ["y", False, "int"]]]


@pytest.mark.parametrize(
    ("now", "sentences"),
    [
        (["array", None, None, [*POINT[3], ["z", False, "int"]]], []),
        (["array", None, None, [*POINT[3], ["z", True, "int"]]], ["p.z has no default"]),
        (["array", None, None, POINT[3][:1]], ["p lacks the field y"]),
        (["array", None, 3, POINT[3]], ["p has another tag"]),
        (
            ["array", None, None, [["x", True, "str"], POINT[3][1]]],
            ['p.x is now "str", and was "int"'],
        ),
        (["map", None, None, POINT[3]], None),
    ],
)
def test_what_differs(now, sentences):
    found = differences(POINT, now, "p")
    assert len(found) == 1 if sentences is None else found == sentences


def test_kinds_that_one_version_lacks():
    first, second = (["array", "t", tag, []] for tag in ("a", "b"))
    one, both = ["union", [first]], ["union", [first, second]]
    assert differences(one, both, "u") == ["u has the kind b"]
    assert differences(both, one, "u") == ["u lacks the kind b"]
    assert differences(["enum", [1]], ["enum", [1, 2]], "e") == ["e has the value 2"]
