"""Message frames and their timestamps."""

import json

import pytest

from leveret.mgmt.perf.bodies import bodies_of, json_bodies
from leveret.mgmt.perf.deliveries import Assembly
from leveret.mgmt.perf.messages import (
    MessageMaker,
    MessagePropertyError,
    PublishAddress,
    message_properties,
)
from leveret.mgmt.perf.options import Options

ADDRESS = PublishAddress(channel=1, exchange="e", is_mandatory=False, frame_bytes_max=4096)


def frames_of(data):
    """Return (kind, payload) of each frame."""
    found, start = [], 0
    while start < len(data):
        stop = start + 7 + int.from_bytes(data[start + 3 : start + 7], "big")
        assert data[stop] == 0xCE
        found.append((data[start], data[start + 7 : stop]))
        start = stop + 1
    return found


def stamp_in(data):
    assembly = Assembly()
    assembly.begin(1)
    for kind, payload in frames_of(data)[1:]:
        stamp = assembly.add(kind, payload)
    return int.from_bytes(stamp, "big")


@pytest.mark.parametrize("size", [12, 100, 4088, 4089, 20_000])
def test_zeros_have_the_time_in_front(size):
    message = MessageMaker(ADDRESS, {}, is_persistent=False).of_size("k", size)
    data = message.stamped(123_456_789)
    assert len(data) == message.length
    assert sum(len(payload) for kind, payload in frames_of(data) if kind == 3) == size
    assert stamp_in(data) == 123_456_789


def test_a_body_is_never_too_small_for_the_time():
    message = MessageMaker(ADDRESS, {}, is_persistent=False).of_size("k", 0)
    assert stamp_in(message.stamped(5)) == 5


def test_a_body_of_a_file_is_left_alone():
    maker = MessageMaker(ADDRESS, {"x": 1}, is_persistent=True)
    data = maker.of_body("k", b"hello").stamped(99)
    assert frames_of(data)[-1] == (3, b"hello")
    assert stamp_in(data) == 99


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
    assert bodies_of(Options([], "x", body=files)) == [b"a", b"b"]
    assert bodies_of(Options([], "x")) == []
