"""Logs of RabbitMQ's tracing plugin, entry by entry: unusual and invalid ones."""

import base64
import json

import pytest

from leveret.analytics.traces.rabbitmq_logs import records_of_json, records_of_text
from leveret.broker.amqp.properties import Properties
from leveret.broker.tracing.plugin_sink import FORMATS, GAPS, Event

BAR = "=" * 80
US = 1_772_373_600_000_000
"""2026-03-01 14:00:00 UTC."""


def entry(body, time="2026-03-01T14:00:00.250+00:00", properties="[]", queue="q"):
    """A delivery in the plugin's format."""
    return (
        f"\n{BAR}\n{time}: Message received\n\nNode:         rabbit@host\nConnection:   c\n"
        f"Virtual host: /\nUser:         guest\nChannel:      1\nExchange:     \n"
        f'Routing keys: [<<"q">>]\nQueue:        {queue}\nProperties:   {properties}\n'
        f"Payload: \n{body}\n"
    )


def numbered(text):
    return enumerate(text.encode().split(b"\n")[:-1], 1)


def of_text(*entries):
    """Records, and reasons for rejections, with line numbers."""
    return [
        (one.line, one.found or one.wrong) for one in records_of_text(numbered("".join(entries)))
    ]


@pytest.mark.parametrize("body", ["", "\n", "x", "x\n", "x\n\n\n", BAR, f"{BAR}\n", f"\n{BAR}\n\n"])
def test_bodies_have_the_bytes_that_they_had(body):
    found = of_text(entry(body), entry(body))
    assert [record["body_size"] for _, record in found] == [len(body)] * 2
    assert [line for line, _ in found] == [2, 2 + entry(body).count("\n")]


@pytest.mark.parametrize(
    ("time", "microseconds"),
    [
        ("2026-03-01T14:00:00.250+00:00", 250_000),
        ("2026-03-01T15:00:00.250+01:00", 250_000),
        ("2026-03-01T14:00:00.250Z", 250_000),
        ("2026-3-1 14:00:00:250", 250_000),
        ("2026-03-01 14:00:00:007", 7_000),
    ],
)
def test_times_of_all_versions(time, microseconds):
    ((_, record),) = of_text(entry("x", time))
    assert record["time_us"] == US + microseconds


def test_a_message_id_is_not_taken_from_headers():
    headers = '{<<"headers">>,table,\n [{<<"message_id">>,longstr,<<"no">>}]}'
    ((_, with_id),) = of_text(
        entry("x", properties=f'[{{<<"message_id">>,longstr,<<"yes">>}},\n  {headers}]')
    )
    assert with_id["properties"] == {"message_id": "yes"}
    ((_, without),) = of_text(entry("x", properties=f"[{headers}]"))
    assert (without["properties"], without["message"]) == ({}, 0)


def test_an_entry_that_is_damaged_is_set_aside_and_the_next_one_is_read():
    damaged = entry("x", properties='[{<<"message_id">>,longstr').replace("User: ", "Usr: ")
    (_, wrong), (line, record) = of_text(damaged, entry("y"))
    assert wrong.startswith("is not an entry of RabbitMQ's trace logs")
    assert (line, record["body_size"]) == (2 + damaged.count("\n"), 1)


def test_gaps_that_leveret_has_written():
    began, ended = "2026-03-01T14:00:00.000+00:00", "2026-03-01T14:00:01.000+00:00"
    text = f"\n{BAR}\n{began}: 77 messages lost until {ended}\n"
    (_, before), (_, gap), (_, after) = of_text(entry("x"), text, entry("y"))
    assert (before["body_size"], after["body_size"]) == (1, 1)
    assert (gap["event"], gap["time_us"], gap["until_us"], gap["lost"]) == (
        "gap", US, US + 1_000_000, 77,
    )  # fmt: skip
    line = {"type": "gap", "lost": 77, "timestamp": began, "until": ended}
    (in_json,) = records_of_json(numbered(json.dumps(line) + "\n"))
    assert in_json.found == gap


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, "7", "[]", '{"type":"published"}', "null", '{"type":7}', "\x00"],
)
def test_lines_of_json_that_are_none_of_the_plugin(line):
    (found,) = records_of_json(numbered(line + "\n"))
    assert found.found is None
    assert found.wrong.startswith("is not a line of RabbitMQ's trace logs")


def test_a_line_of_json():
    line = {
        "timestamp": "2026-03-01T14:00:00.250+00:00", "type": "received", "node": "n",
        "connection": "c", "vhost": "/", "user": "guest", "channel": 1, "exchange": "x",
        "queue": "q", "routed_queues": "none", "routing_keys": ["k"], "properties": {},
        "payload": base64.b64encode(b"12345").decode(),
    }  # fmt: skip
    (found,) = records_of_json(numbered(json.dumps(line) + "\n"))
    assert (found.found["event"], found.found["body_size"]) == ("deliver", 5)


EVENT = Event(
    US + 250_000, "leveret@host", "shop/ü", "127.0.0.1:1 -> 127.0.0.1:2", "guest", 3, "orders",
    None, ["new", 'q "ü" \\ x'], ["a", "☃\n"], Properties(message_id="m-ü-☃", priority=3), b"",
)  # fmt: skip
READERS = {"text": records_of_text, "json": records_of_json}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("payload", [b"", b"hello\n", bytes(range(256)), BAR.encode() + b"\n\n"])
def test_what_leveret_writes_in_these_formats_is_read(kind, payload):
    published = EVENT._replace(payload=payload)
    received = published._replace(queue="a", routed_queues=None, properties=Properties())
    text = "".join(FORMATS[kind](one) for one in (published, received))
    text += GAPS[kind](US, US + 1_000_000, 77)
    lines = enumerate(text.encode("utf-8", "surrogateescape").split(b"\n")[:-1], 1)
    publish, deliver, gap = (one.found for one in READERS[kind](lines))
    for record in (publish, deliver):
        assert record["time_us"] == EVENT.time_us
        assert (record["vhost"], record["user"], record["channel"]) == ("shop/ü", "guest", 3)
        assert (record["exchange"], record["routing_keys"]) == ("orders", EVENT.routing_keys)
        assert record["body_size"] == len(payload)
    assert (publish["queues"], publish["properties"]["message_id"]) == (["a", "☃\n"], "m-ü-☃")
    assert (deliver["queue"], deliver["message"]) == ("a", 0)
    assert (gap["event"], gap["lost"]) == ("gap", 77)
