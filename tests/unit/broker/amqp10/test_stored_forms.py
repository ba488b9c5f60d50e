"""Messages of AMQP 0-9-1 in streams: the bytes that RabbitMQ 3.10.8 and 4.0.5 store for them.

recorded_entries.json has messages that were published to a stream named `recorded`: their
properties, the entry that a client of the stream protocol got, and the properties that a consumer
of AMQP 0-9-1 got, whose order of headers differs. Not in it is what RabbitMQ loses: expirations and
timestamps that are too large begin again from 0. A text of 255 bytes has the long form in 3.10.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.field_table import FieldTableError
from leveret.broker.amqp.properties import decode_properties, encode_properties, scan
from leveret.broker.amqp10.conversion import ConversionRules, to_amqp091
from leveret.broker.amqp10.properties_to_sections import SectionsWriter, address_annotations
from leveret.broker.amqp10.sections import data_section, read_message
from leveret.broker.amqp10.sections_to_properties import UNKNOWN_KIND, SectionsReader
from leveret.broker.amqp10.values import Amqp10Error

RECORDED = json.loads(Path(__file__).with_name("recorded_entries.json").read_text())
CASES = [
    pytest.param(version == "4.0", case, id=f"{version} {case['name']}")
    for version, cases in RECORDED.items()
    for case in cases
]
ADDRESS = encode_address("", "recorded")
OFFSET = {"x-stream-offset": ("l", 0)}


def stored(raw, body, is_4, address=ADDRESS):
    """The entry of a message."""
    writer = BytesWriter()
    sections = SectionsWriter(is_4)
    sections.write(writer, raw, address_annotations(address, is_4))
    is_encoded = is_4 and sections.has_type(raw, b"\x08amqp-1.0")
    return writer.getvalue() + (body if is_encoded else data_section(body))


def read_plainly(entry, is_4, reader=None, offset=0):
    """The properties of an entry without decoding it, and its body; None if it has other forms."""
    writer = BytesWriter()
    reader = reader or SectionsReader(is_4)
    if not reader.read(entry, 0, len(entry)):
        return None
    if not reader.write_properties(writer, entry, offset):
        return None
    raw = writer.getvalue()
    assert reader.kind in (scan(raw), UNKNOWN_KIND)
    return decode_properties(raw), entry[reader.body_at :]


def read_decoded(entry, is_4):
    """The same by decoding it."""
    message = to_amqp091(read_message(entry), ConversionRules(is_4))
    headers = {**message.properties.get("headers", {}), **OFFSET}
    return {**message.properties, "headers": headers}, message.body


@pytest.mark.parametrize(("is_4", "case"), CASES)
def test_a_message_is_stored_as_rabbitmq_does(is_4, case):
    raw, body = bytes.fromhex(case["properties"]), bytes.fromhex(case["body"])
    assert stored(raw, body, is_4).hex() == case["entry"]


def test_the_time_of_receipt_is_an_annotation_with_a_name_of_its_own():
    """As in RabbitMQ 4.2, whose clients of streams see it so."""
    headers = {"timestamp_in_ms": ("l", 1_700_000_000_123), "other": ("S", "a")}
    raw = encode_properties({"headers": headers})
    entry = stored(raw, b"body", is_4=True)
    message = read_message(entry)
    assert message.annotation("x-opt-rabbitmq-received-time").value == 1_700_000_000_123
    assert [key.value for key, _ in message.application_properties] == ["other"]
    (plain, _), (decoded, _) = read_plainly(entry, True), read_decoded(entry, True)
    assert plain["headers"] == decoded["headers"] == {**headers, **OFFSET}


def test_a_header_of_that_name_and_another_type_stays_a_property():
    raw = encode_properties({"headers": {"timestamp_in_ms": ("S", "now")}})
    message = read_message(stored(raw, b"body", is_4=True))
    assert [key.value for key, _ in message.application_properties] == ["timestamp_in_ms"]


@pytest.mark.parametrize(("is_4", "case"), CASES)
def test_an_entry_is_read_as_rabbitmq_does(is_4, case):
    entry = bytes.fromhex(case["entry"])
    wanted = decode_properties(bytes.fromhex(case["delivered"])), bytes.fromhex(case["body"])
    assert read_decoded(entry, is_4) == wanted
    assert read_plainly(entry, is_4) in (wanted, None)


@pytest.mark.parametrize("is_4", [False, True])
def test_most_entries_are_read_without_decoding(is_4):
    cases = RECORDED["4.0" if is_4 else "3.10"]
    entries = {case["name"]: bytes.fromhex(case["entry"]) for case in cases}
    decoded = {name for name, entry in entries.items() if read_plainly(entry, is_4) is None}
    with_nested = {"nested x", "cc", "mixed", "uuids", "upper uuid", "sections"}
    assert decoded == (with_nested if is_4 else set())


@pytest.mark.parametrize(("is_4", "case"), CASES)
def test_an_entry_that_is_cut_off_is_not_read(is_4, case):
    entry = bytes.fromhex(case["entry"])
    for size in range(len(entry)):
        try:
            found = read_plainly(entry[:size], is_4)
        except IndexError:
            found = None
        assert found is None


def test_the_other_version_reads_both_forms():
    for version, cases in RECORDED.items():
        for case in cases:
            entry = bytes.fromhex(case["entry"])
            other = version != "4.0"
            assert read_plainly(entry, other) in (None, read_decoded(entry, other))


TEXTS = st.text(max_size=12).map(lambda text: text[:12])
SHORT = st.builds(lambda text: text[:40], st.text(max_size=40))
FIELDS = st.recursive(
    st.one_of(
        st.tuples(st.just("S"), st.text(max_size=300)),
        st.tuples(st.just("x"), st.binary(max_size=300)),
        st.tuples(st.just("t"), st.booleans()),
        st.tuples(st.just("I"), st.integers(-(1 << 31), (1 << 31) - 1)),
        st.tuples(st.just("i"), st.integers(0, (1 << 32) - 1)),
        st.tuples(st.just("l"), st.integers(-(1 << 63), (1 << 63) - 1)),
        st.tuples(st.just("s"), st.integers(-(1 << 15), (1 << 15) - 1)),
        st.tuples(st.just("u"), st.integers(0, (1 << 16) - 1)),
        st.tuples(st.just("b"), st.integers(-128, 127)),
        st.tuples(st.just("B"), st.integers(0, 255)),
        st.tuples(st.just("T"), st.integers(0, 1 << 53)),
        st.tuples(st.just("d"), st.floats(allow_nan=False)),
        st.tuples(st.just("f"), st.floats(allow_nan=False, width=32)),
        st.tuples(st.just("V"), st.none()),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("A"), st.lists(inner, max_size=4)),
        st.tuples(st.just("F"), st.dictionaries(TEXTS, inner, max_size=4)),
    ),
    max_leaves=5,
)
NAMES = st.one_of(TEXTS, TEXTS.map("x-{}".format), st.sampled_from(["CC", "x-stream-offset"]))
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id",
             "type", "user_id", "app_id"), SHORT,
        ),
        "headers": st.dictionaries(NAMES, FIELDS, max_size=6),
        "delivery_mode": st.integers(1, 2),
        "priority": st.integers(0, 255),
        "expiration": st.one_of(st.just("soon"), st.integers(0, 1 << 33).map(str)),
        "timestamp": st.integers(0, 1 << 53),
    },
)  # fmt: skip


def scalars(headers):
    """The headers that each version keeps."""
    return {name: field for name, field in headers.items() if field[0] not in "AF"}


@given(PROPERTIES, st.binary(max_size=300), st.booleans())
def test_both_ways_of_reading_agree(properties, body, is_4):
    entry = stored(encode_properties(properties), body, is_4)
    assert read_plainly(entry, is_4) in (None, read_decoded(entry, is_4))


@given(PROPERTIES, st.binary(max_size=300))
def test_properties_come_back(properties, body):
    """But for nested headers, in the form of 3.10."""
    entry = stored(encode_properties(properties), body, is_4=False)
    found, found_body = read_decoded(entry, is_4=False)
    headers = {**scalars(properties.get("headers", {})), **OFFSET}
    wanted = {**properties, "headers": headers}
    if "type" not in properties and headers.get("x-basic-type", "V")[0] == "S":
        return
    if not properties.get("user_id", "").isprintable():
        del wanted["user_id"]
    assert (found, found_body) == (wanted, body)


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_read_or_refused(data, is_4):
    entry = b"\x00\x53\x72\xc1" + data
    try:
        found = read_plainly(entry, is_4)
    except (IndexError, FieldTableError):
        found = None
    try:
        decoded = read_decoded(entry, is_4)
    except (Amqp10Error, ValueError):
        decoded = None
    assert found in (None, decoded)


def test_one_reader_keeps_nothing_of_the_message_before():
    reader = SectionsReader(is_4=False)
    for case in RECORDED["3.10"]:
        entry = bytes.fromhex(case["entry"])
        assert read_plainly(entry, False, reader) == read_plainly(entry, False)


def test_deeply_nested_headers_can_be_read_again():
    field = ("I", 1)
    for _ in range(100):
        field = ("A", [field])
    raw = encode_properties({"headers": {"x-deep": field}})
    entry = stored(raw, b"", is_4=True)
    assert "x-deep" in read_decoded(entry, is_4=True)[0]["headers"]


def test_the_filter_value_is_found():
    for is_4 in (False, True):
        sections, writer = SectionsWriter(is_4), BytesWriter()
        red = encode_properties({"headers": {"x-stream-filter-value": ("S", "red")}})
        number = encode_properties({"headers": {"x-stream-filter-value": ("I", 1)}})
        for raw, value in ((red, b"red"), (number, b""), (red, b"red"), (b"\0\0", b"")):
            sections.write(writer, raw, b"")
            assert sections.filter_value == value
