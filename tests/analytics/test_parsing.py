"""Arrow and Python parse lines with the same definition of a valid record."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.analytics.traces import parsing
from leveret.analytics.traces.log_blocks import LogBlock
from leveret.analytics.traces.parsing import parse_block
from leveret.analytics.traces.schema import FIELDS, RANGES
from leveret.broker.tracing import record
from tests.analytics.logs import START_US, event, header

ODD = [None, 0, -1, 1.5, 1e300, 1 << 63, (1 << 63) - 1, 70_000, True, "", "text", "\u00e9\u4e16",
       [], ["a", None], [["a"]], {}, {"message_id": 5},
       {"message_id": "m", "headers": {"a": [1, {"b": None}]}}]  # fmt: skip
EVENTS = [name for name in record.EVENTS if name != record.HEADER]
fields = st.sampled_from([*FIELDS, "body", "colour"])


@st.composite
def lines(draw):
    """A valid line, or one with something unusual."""
    found = event(draw(st.sampled_from(EVENTS)), START_US + draw(st.integers(0, 10)))
    for name in draw(st.lists(fields, max_size=2)):
        found[name] = draw(st.sampled_from(ODD))
    for name in draw(st.lists(fields, max_size=1)):
        found.pop(name, None)
    text = json.dumps(found, ensure_ascii=draw(st.booleans()))
    return draw(st.sampled_from([text] * 8 + [text + text, " " + text, text[:-1], "", "[]", "1"]))


def parsed(data, *, slowly=False):
    """The rows of a block, with their line where they have one."""
    with pytest.MonkeyPatch.context() as patch:
        if slowly:
            patch.setattr(parsing, "sound_records", lambda block: None)
        batches = list(parse_block(LogBlock(data, 1, data.count(b"\n")), "file", 1, None))
    return pa.Table.from_batches(batches, parsing.ARROW_COLUMNS).to_pylist()


@given(st.lists(lines(), min_size=1, max_size=6))
def test_the_quick_reader_finds_what_the_careful_one_finds(several):
    data = "".join(line + "\n" for line in several).encode()
    quickly, slowly = parsed(data), parsed(data, slowly=True)
    assert quickly == slowly
    assert len(quickly) == len(several)


@pytest.mark.parametrize("name", EVENTS)
def test_each_event_is_parsed_by_arrow_as_the_broker_writes_it(name, monkeypatch):
    monkeypatch.setattr(parsing, "parse_entries", None)
    data = "".join(json.dumps(one) + "\n" for one in (header(), event(name, START_US))).encode()
    assert [row["event"] for row in parsed(data)] == [record.HEADER, name]


@pytest.mark.parametrize(
    "odd",
    [
        '{"event":"ack"}{"event":"ack"}',
        '{"event":"ack","event":"ack"}',
        '{"event":"\\ud800"}',
        '{"event":NaN}',
        '"event"',
        "{" * 3_000,
        "[" * 3_000,
        '{"event":"ack","channel":' + "9" * 5_000 + "}",
        '{"event": "ack", "vhost": "a\tb"}',
        "\ufeff{}",
        "\x00",
    ],
)
def test_a_line_that_is_odd_is_set_aside_alone(odd):
    good = json.dumps(event("publish", START_US, message=1))
    rows = parsed(f"{good}\n{odd}\n{good}\n".encode())
    assert [(row["line"], bool(row["wrong"])) for row in rows if row["wrong"]] == [(2, True)]
    assert len(rows) == 3


def test_bytes_that_are_not_text_are_replaced():
    line = json.dumps(event("publish", START_US, exchange="caf?")).encode().replace(b"?", b"\xe9")
    assert [row["exchange"] for row in parsed(line + b"\n")] == ["caf\ufffd"]


def test_only_publishes_have_ids():
    ids = {"properties": {"message_id": "m", "correlation_id": "c", "priority": 3}}
    both = [event("publish", START_US, **ids), event("deliver", START_US, **ids)]
    rows = parsed("".join(json.dumps(one) + "\n" for one in both).encode())
    assert [(row["message_id"], row["correlation_id"]) for row in rows] == [
        ("m", "c"),
        (None, None),
    ]


@pytest.mark.parametrize("name", RANGES)
def test_a_number_that_cannot_be_is_set_aside_with_its_line(name):
    numbers = RANGES[name]
    kind = next(one for one in EVENTS if name in (*record.EVENTS[one], "count"))
    whole, outside = (numbers.start, numbers[-1]), (-1, numbers.stop)
    found = [event(kind, START_US) | {name: number} for number in (*whole, *outside)]
    rows = parsed("".join(json.dumps(one) + "\n" for one in found).encode())
    wrong = [row["line"] for row in rows if row["wrong"] and name in row["wrong"]]
    assert ([row[name] for row in rows if not row["wrong"]], wrong) == ([*whole], [3, 4])
