"""The name of a binding in a path. The hashes of arguments are those that RabbitMQ 3.10.8 gave."""

import pytest

from leveret.broker.amqp.field_table import Table
from leveret.mgmt.views.exchanges import PORTABLY_HASHED_BYTES_MAX, properties_key


def test_without_arguments_it_is_the_encoded_routing_key() -> None:
    assert properties_key("a b/c~", {}) == "a+b%2Fc%7E"
    assert properties_key("", {}) == "~"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"z": ("I", 1), "a": ("S", "b")}, "XiKEnw"),
        ({"z": ("l", 1), "a": ("S", "b")}, "GS70pQ"),
        ({"n": ("l", 5_000_000_000), "neg": ("I", -5)}, "1a08AA"),
        ({"b": ("t", True), "v": ("V", None)}, "8szAXw"),
        (
            {
                "t": (
                    "F",
                    {
                        "z": ("I", 1),
                        "a": ("S", "x"),
                        "l": ("A", [("I", 1), ("S", "two"), ("V", None), ("F", {"q": ("I", 9)})]),
                    },
                )
            },
            "An_x4w",
        ),
        ({"d": ("D", (2, 314))}, "YN9Gyg"),
        ({"ts": ("T", 1704153600)}, "3-inmw"),
        ({"bin": ("x", b"\x00\xff\x80")}, "eKU2nQ"),
        ({"ä": ("S", "é"), "Z": ("S", ""), "a": ("S", "")}, "cJMBXQ"),
    ],
)
def test_with_arguments_it_has_the_hash_that_rabbitmq_gives(
    arguments: Table, expected: str
) -> None:
    assert properties_key("k", arguments) == f"k~{expected}"


def test_the_order_of_arguments_does_not_matter() -> None:
    one: Table = {"a": ("S", "b"), "z": ("I", 1)}
    assert properties_key("", one) == properties_key("", dict(reversed(one.items())))


def test_arguments_that_take_long_to_hash_still_have_keys_of_their_own() -> None:
    text = "x" * PORTABLY_HASHED_BYTES_MAX
    keys = {properties_key("k", {"a": ("S", text + end)}) for end in "bc"}
    assert len(keys) == 2
    assert all(key.startswith("k~") for key in keys)
