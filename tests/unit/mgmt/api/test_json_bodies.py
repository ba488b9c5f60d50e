"""JSON bodies with large texts are decoded in slices, to what they are decoded to at once."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.mgmt.api import json_bodies, large_texts
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.json_bodies import parse
from leveret.mgmt.api.large_texts import LargeText
from leveret.mgmt.http import json_texts

RUN = settings(max_examples=200, deadline=None, database=None, derandomize=True)
UNITS = [
    b"x", b"\\n", b'\\"', b"\\\\", b"\\u20ac", b"\\ud83d\\ude00", "€".encode(), "😀".encode(),
    b"\\\\ud83d", b"\\\\\\n", b"\\\\\\\\u00",
]  # fmt: skip
STRUCTURE_BYTES_MAX, SLICE_BYTES = 150, 100


@pytest.fixture(autouse=True, scope="module")
def small_limits():
    """Bodies of a few hundred bytes are large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_texts, "SLICE_BYTES", SLICE_BYTES)
        patch.setattr(json_texts, "SLICE_BYTES", SLICE_BYTES)
        patch.setattr(json_bodies, "STRUCTURE_BYTES_MAX", STRUCTURE_BYTES_MAX)
        yield


async def decoded(raw):
    """What the body is decoded to, its large payload put together, and how many slices it took."""
    slices = 0

    async def give_way():
        nonlocal slices
        slices += 1

    content = await parse(raw, give_way)
    for where in (content, content.get("edit", {})):
        if isinstance(where.get("payload"), LargeText):
            assert max(map(len, where["payload"].slices)) <= SLICE_BYTES
            where["payload"] = str(where["payload"])
    return content, slices


def body(text, name=b"payload"):
    return b'{"properties":{"headers":{}},"%b":"%b","routing_key":"q"}' % (name, text)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("before", range(13))
async def test_a_text_is_cut_between_characters(unit, before):
    raw = body(b"x" * before + unit * (2 * SLICE_BYTES // len(unit) + 9))
    content, slices = await decoded(raw)
    assert content == msgspec.json.decode(raw)
    assert slices >= 3


@RUN
@given(st.lists(st.tuples(st.sampled_from(UNITS), st.integers(1, 12)), min_size=1))
async def test_any_text_is_decoded_to_the_same(units):
    tail = b"".join(unit * count for unit, count in units)
    # The end of the first slice is somewhere in this.
    raw = body(b"x" * (SLICE_BYTES - len(tail) // 2) + tail + b"y" * 20)
    content, _ = await decoded(raw)
    assert content == msgspec.json.decode(raw)


async def test_nothing_large_is_decoded_in_one_piece(monkeypatch):
    sizes = []

    def decode(raw, decode=msgspec.json.decode, **options):
        sizes.append(len(raw))
        return decode(raw, **options)

    monkeypatch.setattr(msgspec.json, "decode", decode)
    content, _ = await decoded(body(b"\\t" * 20 * SLICE_BYTES))
    assert content["payload"] == "\t" * 20 * SLICE_BYTES
    assert max(sizes) <= STRUCTURE_BYTES_MAX


async def test_texts_that_stand_side_by_side():
    raw = body(b"x" * 3 * SLICE_BYTES)[:-1] + b',"value":"%b"}' % (b'\\"' * 2 * SLICE_BYTES)
    assert (await decoded(raw))[0] == msgspec.json.decode(raw)


@pytest.mark.parametrize("name", [b"payload", b"value"])
async def test_large_texts(name):
    raw = body(b"\\t" * SLICE_BYTES, name)
    assert (await decoded(raw))[0][name.decode()] == "\t" * SLICE_BYTES


async def test_the_payload_of_an_edited_message():
    raw = b'{"ids":[1],"edit":' + body(b"\\t" * SLICE_BYTES) + b"}"
    content, slices = await decoded(raw)
    assert content == msgspec.json.decode(raw)
    assert slices >= 3


async def test_a_small_body_is_decoded_at_once():
    assert await decoded(b'{"payload":"x"}') == ({"payload": "x"}, 0)


@pytest.mark.parametrize(
    "raw",
    [
        body(b"x" * SLICE_BYTES + b"\\q"),
        body(b"x" * SLICE_BYTES + b"\xff" * 100),
        body(b"x" * SLICE_BYTES + b"\n" * 100),
        body(b"x" * 3 * SLICE_BYTES)[:-1],
        body(b"x" * 3 * SLICE_BYTES)[: 2 * SLICE_BYTES],
        body(b"x" * 2 * SLICE_BYTES)[: 2 * SLICE_BYTES] + b"\\",
        b'"' + b"x" * 3 * SLICE_BYTES + b'"',
        b"{",
    ],
)
async def test_a_body_that_is_not_a_json_object_is_refused(raw):
    with pytest.raises(ApiError) as refused:
        await decoded(raw)
    assert (refused.value.status, refused.value.reason) == (400, "not_json")


@pytest.mark.parametrize("name", ["properties", "routing_key", "edit"])
async def test_other_large_values_are_refused(name):
    large = "x" * STRUCTURE_BYTES_MAX
    value = large if name == "routing_key" else {"a": large}
    with pytest.raises(ApiError) as refused:
        await decoded(json.dumps({name: value, "payload": ""}).encode())
    assert refused.value.reason == json_bodies.TOO_LARGE
