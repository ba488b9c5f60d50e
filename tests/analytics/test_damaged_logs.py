"""Damaged, unusual or foreign input is rejected with file and line, and never ends the job.

All files are in one directory and one run of the job.
"""

import base64
import gzip
import json

import pytest

from tests.analytics.logs import START_US, event, header, lines, partition, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows

TEXT_LOG = f"""
{"=" * 80}
2026-01-05 8:00:07:250: Message published

Node:         rabbit@host
Connection:   127.0.0.1:1 -> 127.0.0.1:2
Virtual host: of rabbit
User:         guest
Channel:      1
Exchange:     orders
Routing keys: [<<"key \\"q\\"">>]
Routed queues: [<<"text queue">>]
Properties:   [{{<<"message_id">>,longstr,<<"m1">>}}]
Payload:{" "}
two
lines

{"=" * 80}
2026-01-05 8:00:07:500: Message received

Node:         rabbit@host
Connection:   127.0.0.1:3 -> 127.0.0.1:2
Virtual host: of rabbit
User:         guest
Channel:      1
Exchange:     orders
Routing keys: [<<"key \\"q\\"">>]
Queue:        text queue
Properties:   [{{<<"message_id">>,longstr,<<"m1">>}}]
Payload:{" "}
two
lines
"""


def publish(number, **more):
    return event("publish", START_US + number, message=number, queues=["q"], **more)


def rabbitmq_json(kind, **more):
    entry = {
        "timestamp": "2026-01-05 8:00:01:000", "type": kind, "node": "rabbit@host",
        "connection": "c", "vhost": "of rabbit", "user": "guest", "channel": 1, "exchange": "x",
        "queue": "none", "routed_queues": ["json queue"], "routing_keys": ["k"],
        "properties": {"message_id": "j1"}, "payload": base64.b64encode(b"12345").decode(), **more,
    }  # fmt: skip
    return json.dumps(entry)


def members(*groups):
    """The gzip members of a log, one for each group of records."""
    return [gzip.compress(lines(group).encode()) for group in groups]


ABSURD = [
    publish(16, body_size=(1 << 63) - 1), publish(17, body_size=-1),
    event("ack", (1 << 63) - 1, message=16), event("deliver", -1, message=16),
    event("drop", START_US, count=1 << 62), event("gap", START_US, lost=-5),
    event("gap", START_US, until_us=1 << 62),
]  # fmt: skip
"""Numbers that would overflow the sums and dates of tables."""


def write_damaged_logs(trace):
    folder = partition(trace)
    (folder / "cut-off.jsonl.gz").write_bytes(b"".join(members([header()], [publish(1)]))[:-12])
    first, middle, last = members([header(), publish(2)], [publish(3)] * 50, [publish(4)])
    middle = middle[:15] + b"\xff\xff\xff\xff" + middle[19:]
    (folder / "damaged.jsonl.gz").write_bytes(first + middle + last)
    half = lines([header(), publish(5)]) + '{"event":"pub'
    (folder / "being-written.jsonl.gz.open").write_bytes(gzip.compress(half.encode())[:-8])
    (folder / "empty.jsonl.gz").write_bytes(b"")
    (folder / "not-a-log.jsonl.gz").write_bytes(gzip.compress(b"hello\n"))
    (folder / "noise.jsonl.gz").write_bytes(b"\x00\x01 no gzip at all")
    (folder / "plain.jsonl").write_text(lines([header(), publish(6)]))
    write_log(trace, [publish(7)], name="newer", head=header(version=2))
    write_log(trace, [{**publish(8), "colour": "blue"}], name="unknown-field")
    bad = [
        publish(9), {"event": "sneeze", "time_us": 1}, {**publish(10), "time_us": "noon"},
        {"event": "ack", **{k: v for k, v in publish(11).items() if k != "event"}},
        publish(12), "not an object",
    ]  # fmt: skip
    write_log(trace, ABSURD, name="absurd")
    write_log(trace, [publish(15)], name="sampled", head=header(sample=0))
    path = write_log(trace, bad, name="lines")
    text = gzip.decompress(path.read_bytes()).decode()
    doubled = lines([publish(13)]).strip() + lines([publish(14)])
    path.write_bytes(gzip.compress((text + '{"event":\n' + doubled).encode() + b"\xff\xfe{\n"))
    (trace / "rabbit.log").write_text(
        rabbitmq_json("published") + "\n" + rabbitmq_json("received", queue="json queue") + "\n{\n"
    )
    (trace / "text.log").write_text(TEXT_LOG)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """The rejected rows by file name, and all traffic."""
    directory = tmp_path_factory.mktemp("damaged")
    write_damaged_logs(directory / "trace")
    out = directory / "out"
    outcome = analyze_quickly(directory / "trace", out, only=("traffic", "latency"))
    rejected = {}
    for row in sorted(read_rows(out, "rejected"), key=lambda row: (row.file, row.line or 0)):
        rejected.setdefault(row.file.rsplit("/", 1)[1], []).append(row)
    queues = [row for row in read_rows(out, "traffic") if row.kind == "queue"]
    return outcome, rejected, queues, read_rows(out, "latency")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cut-off.jsonl.gz", "the file is truncated"),
        ("damaged.jsonl.gz", "damaged near byte"),
        ("empty.jsonl.gz", "is empty"),
        ("not-a-log.jsonl.gz", "is not a trace log"),
        ("noise.jsonl.gz", "is not a trace log"),
        ("leveret@test-1767600000000000-newer.jsonl.gz", "is of version 2"),
        ("leveret@test-1767600000000000-sampled.jsonl.gz", "has one message in 0"),
    ],
)
def test_a_file_that_is_damaged_is_named(result, name, reason):
    assert [reason in row.reason for row in result[1][name]] == [True]


def test_lines_are_set_aside_with_their_numbers(result):
    rows = result[1]["leveret@test-1767600000000000-lines.jsonl.gz"]
    wrong = "is not one JSON object"
    assert [(row.line, row.reason) for row in rows] == [
        (3, "the event sneeze is unknown"),
        (4, "has a field time_us that is not of the type long"),
        (5, "has no queue"),
        (7, wrong),
        (8, wrong),
        (9, wrong),
        (10, wrong),
    ]
    assert '"colour"' not in rows[0].text
    assert "sneeze" in rows[0].text


def test_numbers_that_cannot_be_are_set_aside_with_their_lines(result):
    rows = result[1]["leveret@test-1767600000000000-absurd.jsonl.gz"]
    assert [(row.line, row.reason.split(" that ")[0]) for row in rows] == [
        (2, "has a field body_size"), (3, "has a field body_size"), (4, "has a field time_us"),
        (5, "has a field time_us"), (6, "has a field count"), (7, "has a field lost"),
        (8, "has a field until_us"),
    ]  # fmt: skip
    assert rows[0].reason.endswith("that is not from 0 to 4294967295")


def test_intact_records_beside_it_are_in_the_tables(result):
    published = {row.name: row.published for row in result[2] if row.vhost == "/"}
    # Numbers 2, 4, 5, 6, 8, 9 and 12; 3 is lost with its member, and 1 is truncated.
    assert published["q"] == 7


def test_files_that_are_all_right_are_not_named(result):
    fine = {"being-written.jsonl.gz.open", "plain.jsonl", "text.log"}
    assert not fine & set(result[1])
    assert result[0].rejected == sum(len(rows) for rows in result[1].values())


def test_logs_of_rabbitmq_are_read(result):
    queues = {row.name: (row.published, row.delivered) for row in result[2]}
    assert queues["json queue"] == queues["text queue"] == (1, 1)
    assert [row.line for row in result[1]["rabbit.log"]] == [3]
    waits = {row.queue: row.wait_max_us for row in result[3]}
    assert waits == {"json queue": 0, "text queue": 250_000}
