"""What is missing, damaged, given twice or of a wrong time is noticed, and counted once."""

import gzip
import shutil

import pytest

from leveret.broker.amqp.properties import Properties
from leveret.broker.tracing import record
from leveret.broker.tracing.plugin_sink import FORMATS, Event
from tests.analytics.counts import write_counts
from tests.analytics.logs import NODE, SECOND_US, START_US, event, header, lines, write_log
from tests.analytics.running import analyze_quickly, analyze_with_spark
from tests.analytics.tables import everything, read_rows, without_directories

YEAR_9000 = 221_845_392_000_000_000


def publishes(count, begin=1, time_us=START_US):
    return [
        event("publish", time_us + number * 1_000, message=number, queues=["q"])
        for number in range(begin, begin + count)
    ]


def write_numbered(directory, number, records):
    return write_log(directory, records, name=str(number))


def faults(tmp_path, only=("traffic",)):
    """The rows of the table, by kind, after an analysis of the logs.

    only: the other tables to make; () for all of them and the report.
    """
    analyze_quickly(tmp_path / "logs", tmp_path / "out", only=only)
    return {row.kind: row for row in read_rows(tmp_path / "out", "trust")}


def published(tmp_path):
    rows = read_rows(tmp_path / "out", "traffic")
    return sum(row.published for row in rows if row.kind == "exchange")


def report(tmp_path):
    return (tmp_path / "out" / "report.html").read_text()


def test_a_sound_log_has_one_line(tmp_path):
    for number in range(3):
        write_numbered(tmp_path / "logs", number, publishes(5, 1 + 5 * number))
    assert [*faults(tmp_path, only=())] == ["nothing found"]
    assert "No file is missing, damaged or given twice" in report(tmp_path)


def test_missing_files_are_told_from_the_numbers_of_the_others(tmp_path):
    for number in (2, 3, 6):
        write_numbered(tmp_path / "logs", number, publishes(9, 10 * number))
    found = faults(tmp_path, only=())["missing files"]
    assert (found.times, found.lost_records) == (2, 20)
    assert f"2 files of node {NODE}, vhost /, of the log" in found.sentence
    assert "are missing (numbers 4 to 5)" in found.sentence
    assert found.sentence in report(tmp_path)


@pytest.mark.parametrize("part", [1.0, 0.5], ids=["whole", "while it was written"])
def test_copies_of_a_file_are_not_counted(tmp_path, part):
    log = write_numbered(tmp_path / "logs", 0, publishes(50))
    shutil.copy(log, tmp_path / "logs" / "again.jsonl.gz")
    text = gzip.decompress(log.read_bytes()).decode().splitlines(keepends=True)
    (tmp_path / "logs" / "plain.jsonl").write_text("".join(text[: int(len(text) * part)]))
    found = faults(tmp_path)["copied files"]
    assert (published(tmp_path), found.times) == (50, 2)
    assert f"{tmp_path}/logs/again.jsonl.gz (as {log})" in found.sentence


def test_files_with_the_same_header_are_not_copies(tmp_path):
    write_numbered(tmp_path / "logs", 0, publishes(5))
    write_numbered(tmp_path / "logs", 1, publishes(5, 6))
    assert "copied files" not in faults(tmp_path)
    assert published(tmp_path) == 10


def plugin_log(directory, name, times, late_us=0):
    """A log of the tracing plugin's format, of a publish and a delivery at each time."""
    text = []
    for time_us in times:
        for queue in (None, "q"):
            one = Event(
                time_us + late_us, NODE, "/", "client", "guest", 1, "", queue, ["key"],
                ["q"] if queue is None else None, Properties(), b"0123456789",
            )  # fmt: skip
            text.append(FORMATS[name](one))
    path = directory / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(text))


TIMES = [START_US + number * SECOND_US for number in range(40)]


@pytest.mark.parametrize("formats", [("json", "text"), ("text", "json")])
def test_traffic_in_two_formats_is_counted_once(tmp_path, formats):
    for late_us, name in enumerate(formats):
        plugin_log(tmp_path / "logs", name, TIMES, 3_000 * late_us)
    found = faults(tmp_path)["copied records"]
    assert (published(tmp_path), found.times) == (40, 80)
    assert "80 records of text logs of the tracing plugin" in found.sentence


def test_formats_that_overlap_in_part(tmp_path):
    plugin_log(tmp_path / "logs", "json", TIMES[:30])
    plugin_log(tmp_path / "logs", "text", TIMES[20:])
    assert faults(tmp_path)["copied records"].times == 20
    assert published(tmp_path) == 40


def test_formats_of_different_times_are_not_copies(tmp_path):
    plugin_log(tmp_path / "logs", "json", TIMES[:15])
    plugin_log(tmp_path / "logs", "text", TIMES[30:])
    assert "copied records" not in faults(tmp_path)
    assert published(tmp_path) == 25


def test_a_text_trace_beside_the_log_of_the_broker(tmp_path):
    records = []
    for number, time_us in enumerate(TIMES, 1):
        records += [event("publish", time_us, message=number, queues=["q"]),
                    event("deliver", time_us, message=number)]  # fmt: skip
    write_log(tmp_path / "logs", records)
    plugin_log(tmp_path / "logs", "text", TIMES, 900)
    assert faults(tmp_path)["copied records"].times == 80
    assert published(tmp_path) == 40


def test_a_record_of_the_year_9000_stretches_nothing(tmp_path):
    far = event("publish", YEAR_9000, message=1_000)
    write_log(tmp_path / "logs", [*publishes(5), far])
    found = faults(tmp_path, only=())["implausible times"]
    assert (found.times, found.lost_records) == (1, 1)
    assert "1 record, of 9000-01-01 00:00" in found.sentence
    assert {row.date for row in read_rows(tmp_path / "out", "traffic")} == {"2026-01-05"}
    assert "Trace report, 2026-01-05 08:00:00 to 2026-01-05" in report(tmp_path)


def test_a_node_without_a_clock_at_its_start(tmp_path):
    write_log(tmp_path / "logs", [*publishes(2, 1, 60 * SECOND_US), *publishes(5, 10)])
    assert "2 records, of 1970-01-01 00:01" in faults(tmp_path)["implausible times"].sentence


def test_months_without_records_are_not_a_fault(tmp_path):
    later = START_US + 90 * 86_400 * SECOND_US
    write_log(tmp_path / "logs", [*publishes(5), *publishes(5, 10, later)])
    assert [*faults(tmp_path)] == ["nothing found"]
    assert published(tmp_path) == 10


def test_a_clock_that_goes_back(tmp_path):
    back = publishes(5, 100, START_US - 3_600 * SECOND_US)
    write_log(tmp_path / "logs", [*publishes(5), *back])
    found = faults(tmp_path)["clock"]
    assert (found.times, published(tmp_path)) == (1, 10)
    assert "1 time a clock went back" in found.sentence
    assert "by 3,600 s" in found.sentence


def test_damage_says_what_it_cost(tmp_path):
    log = write_log(tmp_path / "logs", [])
    members = [
        gzip.compress(lines(publishes(200, 1 + 200 * number)).encode()) for number in range(4)
    ]
    damaged = bytearray(members[1])
    damaged[40:44] = b"\xff\xff\xff\xff"
    log.write_bytes(
        b"".join([gzip.compress(lines([header()]).encode()), members[0], damaged, *members[2:]])
    )
    found = faults(tmp_path)["damage"]
    assert found.lost_bytes > len(damaged) / 2
    assert 100 < found.lost_records < 400
    skipped = f"{found.lost_bytes:,} bytes were skipped, about {found.lost_records:,} records"
    assert skipped in found.sentence


def test_gaps_of_the_broker(tmp_path):
    gap = event("gap", START_US, until_us=START_US + 5, lost=70)
    write_log(tmp_path / "logs", [*publishes(2), gap])
    assert faults(tmp_path)["gaps"].lost_records == 70


def test_spark_says_the_same(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.analytics.job.job.write_tables", write_counts)
    logs = tmp_path / "logs"
    for number in (0, 2):
        write_numbered(logs, number, [
            *publishes(9, 10 * number),
            *publishes(5, 100 + 10 * number, START_US - 60 * SECOND_US),
            event("publish", YEAR_9000, message=1_000 + number),
        ])  # fmt: skip
    shutil.copy(write_numbered(logs, 3, publishes(3, 300)), logs / f"copy{record.LINES_SUFFIX}")
    plugin_log(logs, "json", TIMES[:30])
    plugin_log(logs, "text", TIMES[20:])
    few = ("traffic", "summary")
    read = analyze_quickly(logs, tmp_path / "quick", only=few)
    with_spark = analyze_with_spark(spark, logs, tmp_path / "spark", only=few)
    # Spark counts the bytes of copies, too.
    assert with_spark._replace(size=read.size) == read
    names = (*few, "trust", "rejected")
    quick = without_directories(everything(tmp_path / "quick", names))
    assert without_directories(everything(tmp_path / "spark", names)) == quick
    assert {row.kind for row in read_rows(tmp_path / "spark", "trust")} == {
        "missing files", "implausible times", "clock", "copied files", "copied records",
    }  # fmt: skip
