"""`leveret journey` on small logs, valid and damaged."""

import gzip
import json

import pytest

from leveret.analytics.formatting import moment
from leveret.analytics.journey_command import main
from tests.analytics.trace_log import FIRST, HOUR, NODE, SECOND, START_US, WHO, TraceLog

ORDER = {"message_id": "order-17", "correlation_id": "c-9"}


@pytest.fixture
def asked(tmp_path, capsys):
    """Runs the command on the directory: exit code, output and errors."""

    def ask(*arguments):
        status = main([str(tmp_path), "--processes", "1", *map(str, arguments)])
        output = capsys.readouterr()
        return status, output.out, output.err

    return ask


def dead_lettered_order():
    """An order that is rejected twice in billing, dead-lettered, and fetched two hours later."""
    log = TraceLog()
    log.publish(0, FIRST + 1, ["billing", "audit"], properties=ORDER, body=b"x" * 120)
    log.deliver(12_000, FIRST + 1, "billing", properties=ORDER)
    log.reject(20_000, FIRST + 1, "billing", requeue=True)
    log.deliver(21_000, FIRST + 1, "billing", properties=ORDER, redelivered=True)
    log.deliver(22_000, FIRST + 1, "audit", properties=ORDER)
    log.ack(30_000, FIRST + 1, "audit")
    log.reject(4 * SECOND, FIRST + 1, "billing")
    log.dead_letter(4 * SECOND, FIRST + 1, "billing", "rejected", FIRST + 2, ["dead"])
    log.publish(5 * SECOND, FIRST + 3, ["billing"], properties={"message_id": "order-170"})
    log.deliver(2 * HOUR, FIRST + 2, "dead", consumer=None, no_ack=True)
    return log


def test_every_hop_is_told_in_words(tmp_path, asked):
    dead_lettered_order().write(tmp_path)
    status, told, errors = asked("--message-id", "order-17")
    assert (status, errors) == (0, "")
    hops = [
        "published to exchange orders with routing key new, 120 bytes; routed to queues billing"
        " and audit (user guest, connection 127.0.0.1:50000 -> 127.0.0.1:5672, channel 1)",
        "+12 ms  queue billing: delivered to consumer ctag-1 after waiting 12 ms",
        "+20 ms  queue billing: rejected with requeue, 8 ms after its delivery",
        "+21 ms  queue billing: delivered to consumer ctag-1 after waiting 1 ms, as redelivered",
        "+30 ms  queue audit: acknowledged, 8 ms after its delivery",
        "+4 s  queue billing: rejected without requeue",
        "queue billing: dead-lettered (it was rejected) to exchange dlx with routing key new;"
        f" routed to queue dead, as message {FIRST + 2}",
        f"came as a dead letter of message {FIRST + 1} from queue billing",
        "queue dead: delivered to basic.get after waiting 1 h 59 min, no-ack",
    ]
    places = [told.index(hop) for hop in hops]
    assert places == sorted(places)
    assert "order-170" not in told
    assert "Not known" not in told


@pytest.mark.parametrize(
    "question",
    [["--correlation-id", "c-9"], [FIRST + 1], ["--message", FIRST + 2]],
)  # fmt: skip
def test_any_name_of_any_part_finds_the_whole(tmp_path, asked, question):
    dead_lettered_order().write(tmp_path)
    status, told, _ = asked(*question)
    assert status == 0
    assert told.count("Message ") == 2
    assert "published to exchange orders" in told
    assert "queue dead: delivered to basic.get" in told


def test_each_of_several_messages_with_the_same_id(tmp_path, asked):
    log = TraceLog()
    for number in range(1, 8):
        log.publish(number, FIRST + number, ["q"], properties={"message_id": "twice"})
        log.deliver(number + 10, FIRST + number, "q", no_ack=True)
    log.write(tmp_path)
    status, told, errors = asked("--message-id", "twice", "--limit", 5)
    assert status == 0
    assert told.count("published to") == 5
    assert "2 more messages are not shown" in errors


def test_processes_find_what_one_finds(tmp_path, asked):
    dead_lettered_order().write(tmp_path)
    alone = asked("--message-id", "order-17")
    assert asked("--message-id", "order-17", "--processes", 2) == alone


def test_a_message_that_is_not_there(tmp_path, asked):
    dead_lettered_order().write(tmp_path)
    status, told, errors = asked("--message-id", "order-1")
    assert (status, told) == (1, "")
    assert "no message with message-id order-1 was found" in errors
    assert "2 of 2 files of vhost /, 2026-03-01 14:00 to 2026-03-01 17:00 UTC" in errors


def test_a_directory_without_logs_and_none_at_all(tmp_path, asked):
    status, _, errors = asked("--message-id", "x", "--vhost", "other")
    assert status == 1
    assert "there are no trace logs below" in errors
    assert main([str(tmp_path / "none"), "--message-id", "x"]) == 1


def test_a_window_limits_the_files_that_are_read(tmp_path, asked):
    dead_lettered_order().write(tmp_path)
    _, told, _ = asked("--message-id", "order-17", "--to", "2026-03-01T15:00")
    assert "queue dead: no end is known; it is still ready" in told
    assert asked("--message-id", "order-17", "--from", "2026-03-01T15:00")[0] == 1
    assert asked("--message-id", "order-17", "--vhost", "other")[0] == 1


def test_a_number_reads_only_the_hours_that_can_hold_it(tmp_path, asked):
    log = TraceLog()
    for hour in range(5):
        log.publish(hour * HOUR, FIRST + hour, ["q"])
        log.deliver(hour * HOUR + 1, FIRST + hour, "q", no_ack=True)
    early, _, *late = log.write(tmp_path)
    for path in (early, *late[1:]):
        # Reading these files beyond their first lines would report the damage.
        path.write_bytes(path.read_bytes() + b"\x1f\x8b\x08damaged")
    status, told, errors = asked(FIRST + 1, "--json")
    assert status == 0
    assert str(early) not in errors
    assert json.loads(told)["queues"]["q"]["state"] == "consumed"


def test_missing_knowledge_is_stated(tmp_path, asked):
    log = TraceLog()
    log.publish(0, FIRST + 1, ["held", "purged"], properties=ORDER)
    log.deliver(SECOND, FIRST + 1, "held", consumer="slow")
    log.add("gap", 2 * SECOND, until_us=START_US + 3 * SECOND, lost=40)
    log.add("drop", 4 * SECOND, queue="purged", reason="purge", count=77)
    log.write(tmp_path)
    _, told, _ = asked(FIRST + 1)
    assert "queue held: consumer slow still has it, unacknowledged, 3 s later" in told
    assert "queue purged: 77 messages were dropped at 2026-03-01 14:00:04.000000" in told
    assert "still ready" not in told
    assert "40 records" in told


def test_what_a_message_without_a_number_did_is_told(tmp_path, asked):
    log = TraceLog()
    log.deliver(0, 0, "q", properties=ORDER)
    log.deliver(1, 0, "q", properties={"message_id": "other"})
    log.write(tmp_path)
    _, told, _ = asked("--message-id", "order-17")
    assert told.count("delivered to") == 1
    assert "published before the trace began" in told


def test_a_sampled_log_says_so(tmp_path, asked):
    log = TraceLog(sample=100)
    log.publish(0, FIRST, ["q"])
    log.write(tmp_path)
    assert "sample of one message in 100, chosen by its number" in asked(FIRST + 1)[2]


def test_a_returned_message(tmp_path, asked):
    log = TraceLog()
    log.publish(0, FIRST + 1, [], exchange="")
    log.add("return", 1, **WHO, message=FIRST + 1, exchange="", routing_keys=["new"],
            reply_code=312, reply_text="NO_ROUTE")  # fmt: skip
    log.write(tmp_path)
    _, told, _ = asked(FIRST + 1)
    assert "published to the default exchange" in told
    assert "returned to its publisher: 312 NO_ROUTE" in told
    assert "The end: returned to its publisher." in told


def test_a_message_that_an_exchange_refused_is_not_lost(tmp_path, asked):
    log = TraceLog()
    log.publish(0, FIRST + 1, [])
    log.records[-1]["reason"] = "duplicate"
    log.write(tmp_path)
    _, told, _ = asked(FIRST + 1)
    why = "since an exchange had passed a message with its identifier"
    assert f"routed to no queue, {why}" in told
    assert f"The end: not routed, {why}." in told


def test_a_message_that_waits_for_its_retry(tmp_path, asked):
    log = TraceLog()
    log.publish(0, FIRST + 1, ["q"])
    log.deliver(SECOND, FIRST + 1, "q")
    log.reject(2 * SECOND, FIRST + 1, "q", requeue=True)
    until_us = START_US + 60 * SECOND
    log.add("delay", 2 * SECOND, message=FIRST + 1, queue="q", until_us=until_us)
    log.deliver(60 * SECOND, FIRST + 1, "q", redelivered=True)
    log.write(tmp_path)
    _, told, _ = asked(FIRST + 1)
    assert f"queue q: waits for its retry until {moment(until_us)}" in told


def test_names_cannot_move_the_cursor(tmp_path, asked):
    log = TraceLog()
    log.publish(0, FIRST + 1, ["\x1b[2Jq"], properties={"message_id": 'a"\n\\é'})
    log.write(tmp_path)
    status, told, _ = asked("--message-id", 'a"\n\\é')
    assert status == 0
    assert "\x1b" not in told
    assert r"queue \x1b[2Jq" in told


# Files in any state


def test_a_file_that_is_cut_off_is_read_to_its_last_line(tmp_path, asked):
    [path, _] = dead_lettered_order().write(tmp_path)
    path.write_bytes(path.read_bytes() + gzip.compress(b'{"event":"publish"}\n' * 50)[:-12])
    status, told, errors = asked("--message-id", "order-17")
    assert status == 0
    assert "queue dead: delivered" in told
    assert "the file is truncated" in errors


def test_a_file_that_is_being_written_is_not_a_problem(tmp_path, asked):
    [path, _] = dead_lettered_order().write(tmp_path)
    path = path.rename(path.with_name(path.name + ".open"))
    path.write_bytes(path.read_bytes() + gzip.compress(b'{"event":"publish"}\n{"ev')[:-12])
    status, told, errors = asked("--message-id", "order-17")
    assert (status, errors) == (0, "")
    assert "queue billing: rejected without requeue" in told


def test_after_a_damaged_member_it_goes_on(tmp_path, asked):
    log = dead_lettered_order()
    [path, _] = log.write(tmp_path)
    first, second = log.records[:3], log.records[3:9]
    members = [gzip.compress(data) for part in (first, second) for data in log.members(part)]
    damaged = bytearray(gzip.compress(b'{"event":"publish","message":1}\n' * 1000))
    damaged[20:40] = bytes(20)
    path.write_bytes(members[0] + bytes(damaged) + members[1])
    status, told, errors = asked("--message-id", "order-17")
    assert status == 0
    assert "queue billing: delivered" in told
    assert "queue billing: rejected without requeue" in told
    assert "damaged near byte" in errors


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"event":"publish","properties":{"message_id":"order-17"', "line 2: is not a record"),
        ('["message_id","order-17"]', "line 2: is not a record"),
        ("[" * 100_000 + '"order-17"', "line 2: is not a record"),
    ],
)
def test_a_line_that_is_not_a_record_is_reported(tmp_path, asked, line, reason):
    header = json.dumps({"event": "header", "version": 1, "node": NODE, "sample": 1})
    whole = json.dumps({"event": "publish", "time_us": START_US, "message": 5, "queues": [],
                        "properties": ORDER})  # fmt: skip
    (tmp_path / "copied.jsonl").write_text(f"{header}\n{line}\n{whole}\n")
    status, told, errors = asked("--message-id", "order-17")
    assert status == 0
    assert "Message 5" in told
    assert reason in errors


def test_records_of_a_later_version_are_refused(tmp_path, asked):
    log = TraceLog(version=2)
    log.publish(0, FIRST + 1, ["q"])
    log.write(tmp_path)
    status, _, errors = asked(FIRST + 1)
    assert status == 1
    assert "is of version 2; the latest supported is 1" in errors


def test_odd_values_are_survived(tmp_path, asked):
    header = {"event": "header", "version": 1, "sample": 1}
    odd = [
        {"event": "publish", "message": 5, "time_us": "x", "queues": 7, "properties": ORDER},
        {"event": "deliver", "message": 5, "time_us": 5, "queue": None, "properties": ORDER},
        {"event": "invented", "message": 5, "time_us": 6, "queue": "q"},
        {"event": "gap", "time_us": None, "until_us": "x", "lost": "y"},
        {"event": "drop", "time_us": 5, "queue": "q", "count": "many"},
    ]
    lines = [json.dumps(one) for one in [header, *odd]]
    (tmp_path / "odd.jsonl").write_text("\n".join(lines) + "\n")
    assert asked("--message-id", "order-17")[0] == 0
    assert asked("--message-id", "none")[0] == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["0"], ["--message-id", "x", "--from", "yesterday"], ["x1"],
     ["--message-id", "x", "--from", "2026-03-02", "--to", "2026-03-01"],
     ["--message-id", "x", "--limit", "0"]],
)  # fmt: skip
def test_options_that_make_no_sense(tmp_path, arguments):
    with pytest.raises(SystemExit) as error:
        main([str(tmp_path), *arguments])
    assert error.value.code == 2


def message_of_a_stream():
    """Six messages are committed in two chunks, read by two consumers, and removed."""
    log = TraceLog()
    limits = {"max_age_us": None, "max_bytes": 1_000, "segment_bytes": 500}

    def chunk(event, at_us, offset, messages, **fields):
        log.add(
            event, at_us, queue="orders", offset=offset, messages=messages, body_size=120,
            published_us=START_US + 1_000, **fields,
        )  # fmt: skip

    log.publish(0, FIRST + 1, [], properties=ORDER)
    log.records[-1]["streams"] = ["orders"]
    chunk("commit", 4_000, 0, 4, first_offset=0, **limits)
    log.add("place", 5_000, message=FIRST + 1, queue="orders", offset=2)
    chunk("commit", 9_000, 4, 2, first_offset=0, **limits)
    chunk("read", 10_000, 0, 4, **WHO, consumer_tag="billing", lag=2, filtered=False)
    chunk("read", 2 * SECOND, 2, 1, **WHO, consumer_tag="audit", lag=3, filtered=False)
    for at_us, offset in ((3 * SECOND, 3), (4 * SECOND, 5)):
        log.add("store_offset", at_us, **WHO, queue="orders", consumer_tag="billing", offset=offset)
    log.add("retain", 5 * SECOND, queue="orders", first_offset=4, **limits)
    return log


def test_a_message_of_a_stream_is_told_by_its_offset(tmp_path, asked):
    message_of_a_stream().write(tmp_path)
    status, told, errors = asked("--stream", "orders", "--offset", 2)
    assert (status, errors) == (0, "")
    who = "(user guest, connection 127.0.0.1:50000 -> 127.0.0.1:5672)"
    assert [line.split("  ")[-1] for line in told.splitlines()[:-1]] == [
        "Message at offset 2 of stream orders, vhost /",
        f"committed 3 ms after its leader got it, on {NODE}, in a chunk of 4 messages from offset 0"
        " on, 120 bytes",
        f"it is message {FIRST + 1}, of which `leveret journey TRACE_DIR {FIRST + 1}` tells more",
        f"read by consumer billing, with offsets 0 to 3; 2 messages behind {who}",
        f"read by consumer audit, with offsets 2 to 2; 3 messages behind {who}",
        f"consumer billing has stored offset 3 {who}",
        "removed by retention: the stream begins with offset 4",
    ]
    _, told, _ = asked("--stream", "orders", "--offset", 4)
    assert "no consumer has read it" in told
    status, _, errors = asked("--stream", "orders", "--offset", 9)
    assert (status, "no record about offset 9 of stream orders" in errors) == (1, True)


def test_a_publish_to_a_stream_is_not_lost(tmp_path, asked):
    message_of_a_stream().write(tmp_path)
    _, told, _ = asked("--message-id", "order-17")
    assert "routed to stream orders" in told
    assert "stream orders: stored at offset 2" in told
    assert "The end: kept in stream orders." in told
