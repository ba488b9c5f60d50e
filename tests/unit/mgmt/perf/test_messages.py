"""Message frames and their timestamps."""

import json

import pytest

from leveret.broker.amqp.properties import decode_properties
from leveret.mgmt.perf.bodies import bodies_of, json_bodies
from leveret.mgmt.perf.messages import (
    STAMP_FIELD,
    MessageMaker,
    MessagePropertyError,
    message_properties,
)
from leveret.mgmt.perf.options import PerfOptions


def stamp_of(properties):
    """The timestamp in a header."""
    at = properties.index(STAMP_FIELD) + len(STAMP_FIELD)
    return int.from_bytes(properties[at : at + 8], "big")


@pytest.mark.parametrize("size", [12, 100, 20_000])
def test_zeros_have_the_time_in_front(size):
    message = MessageMaker({}, is_persistent=False).of_size("k", size)
    properties, body = message.stamped(123_456_789)
    assert body == (123_456_789).to_bytes(8, "big") + bytes(size - 8)
    assert decode_properties(properties) == {}
    assert (message.key, message.size) == ("k", size)


def test_a_body_is_never_too_small_for_the_time():
    _, body = MessageMaker({}, is_persistent=False).of_size("k", 0).stamped(5)
    assert int.from_bytes(body[:8], "big") == 5


def test_a_body_of_a_file_is_left_alone_and_the_time_is_in_a_header():
    message = MessageMaker({"x": 1}, is_persistent=True).of_body("k", b"hello")
    properties, body = message.stamped(99)
    assert (stamp_of(properties), body) == (99, b"hello")
    assert decode_properties(properties) == {
        "delivery_mode": 2, "headers": {"x": ("l", 1), "timestamp": ("l", 99)}
    }  # fmt: skip


def test_properties_have_amqps_names_or_perftests_and_others_are_headers():
    made = message_properties(
        {"appId": "shop", "priority": 5, "content_type": "text/plain", "n": 1}
    )
    assert made == {
        "app_id": "shop", "priority": 5, "content_type": "text/plain", "headers": {"n": ("l", 1)}
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [{"priority": 256}, {"priority": "x"}, {"appId": "x" * 256}])
def test_properties_that_cannot_be_are_refused(wrong):
    with pytest.raises(MessagePropertyError):
        message_properties(wrong)


def test_json_bodies_are_json_of_about_the_size():
    bodies = json_bodies(1000, 50, 20)
    assert len(bodies) == 20
    for body in bodies:
        assert 900 < len(body) <= 1000
        assert json.loads(body)


def test_files_are_published_in_turns(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert bodies_of(PerfOptions([], "x", body=files)) == [b"a", b"b"]
    assert bodies_of(PerfOptions([], "x")) == []
