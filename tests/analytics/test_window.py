"""The effects of --from, --to, --vhost and --poison-above."""

import pytest

from leveret.analytics.analyze import read_options
from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.log_parts import parts_of
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.trace_files import TraceWindow, described
from tests.analytics.logs import MINUTE_US, START_US, event, header, partition, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows

HOUR_US = 60 * MINUTE_US
NINE_US, TEN_US = START_US + HOUR_US, START_US + 2 * HOUR_US


def published(time_us, number, vhost="/"):
    return event("publish", time_us, vhost, message=number, queues=["q"])


def window_of(*arguments):
    options = read_options(["trace", "--out", "out", *arguments])
    return TraceWindow(options.from_us, options.to_us, options.vhost)


def messages(path, window):
    """Return the message numbers that are read from a file."""
    [part] = parts_of([described(str(path), path.stat().st_size)])
    batches = read_log(part, window)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [row["message"] for row in rows if row["event"] == "publish"]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["--from", "2026-01-05T09:00"], [2, 3, 4, 5, 6]),
        (["--to", "2026-01-05T10:00"], [1, 2, 3, 4]),
        (["--from", "2026-01-05T09:00", "--to", "2026-01-05T10:00:00"], [2, 3, 4]),
        (["--from", "2026-01-05T09:00:00.000001"], [3, 4, 5, 6]),
        (["--to", "2026-01-05T10:00:00.000001"], [1, 2, 3, 4, 5]),
        (["--from", "2026-01-05T11:00+02:00", "--to", "2026-01-05T05:00-05:00"], [2, 3, 4]),
        (["--from", "2026-01-05T09:00Z"], [2, 3, 4, 5, 6]),
        (["--from", "2026-01-06"], []),
        (["--to", "2026-01-05"], []),
        (["--vhost", "other"], []),
        (["--vhost", "/"], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_window_has_its_beginning_and_not_its_end(tmp_path, arguments, numbers):
    times = [NINE_US - 1, NINE_US, NINE_US + 1, TEN_US - 1, TEN_US, TEN_US + 1]
    path = write_log(tmp_path, [published(at, number) for number, at in enumerate(times, 1)])
    assert messages(path, window_of(*arguments)) == numbers


@pytest.mark.parametrize(
    ("arguments", "hours"),
    [
        ([], {"08", "09", "10"}),
        (["--from", "2026-01-05T09:00"], {"09", "10"}),
        (["--from", "2026-01-05T09:59:59"], {"09", "10"}),
        (["--to", "2026-01-05T09:00"], {"08"}),
        (["--to", "2026-01-05T09:00:01"], {"08", "09"}),
        (["--from", "2026-01-05T09:00", "--to", "2026-01-05T10:00"], {"09"}),
        (["--vhost", "other"], set()),
    ],
)
def test_directories_of_other_hours_and_vhosts_are_not_looked_at(tmp_path, arguments, hours):
    for hour in range(3):
        (partition(tmp_path, "shop", START_US + hour * HOUR_US) / "log.jsonl.gz").touch()
    window = window_of("--vhost", "shop", *arguments)
    found = [file.path for file in list_local_files(str(tmp_path), window)]
    assert {path.rsplit("hour=", 1)[1][:2] for path in found} == hours


def test_a_file_in_no_directory_of_an_hour_is_looked_at(tmp_path):
    (tmp_path / "copied.jsonl.gz").touch()
    window = window_of("--from", "2027-01-01", "--vhost", "shop")
    assert len(list_local_files(str(tmp_path), window)) == 1


@pytest.mark.parametrize(
    "arguments",
    [["--from", "noon"], ["--to", "2026-13-01"], ["--poison-above", "often"], ["--every", "soon"]],
)
def test_options_that_make_no_sense(arguments):
    with pytest.raises(SystemExit) as error:
        window_of(*arguments)
    assert error.value.code == 2


def test_the_job_does_what_its_options_say(tmp_path):
    trace, out = tmp_path / "trace", tmp_path / "out"
    deliveries = [
        event("deliver", NINE_US + turn, "shop", message=number, redelivered=turn > 1)
        for number, times in ((7, 2), (8, 3))
        for turn in range(1, times + 1)
    ]
    in_window = [published(NINE_US, 7, "shop"), published(NINE_US, 8, "shop"), *deliveries]
    records = [published(NINE_US - 1, 1, "shop"), *in_window, published(TEN_US, 9, "shop")]
    write_log(trace, records, "shop", "shop", header(vhost="shop"), NINE_US)
    write_log(trace, [published(NINE_US, 2)], name="other", time_us=NINE_US)
    # Reading these files would add rejected rows.
    for vhost, time_us in (("shop", START_US - HOUR_US), ("shop", TEN_US), ("/", NINE_US)):
        (partition(trace, vhost, time_us) / "bad.jsonl.gz").write_bytes(b"no log")
    options = read_options([
        str(trace), "--out", str(out), "--from", "2026-01-05T09:00", "--to", "2026-01-05T10:00",
        "--vhost", "shop", "--poison-above", "2",
    ])  # fmt: skip
    window = TraceWindow(options.from_us, options.to_us, options.vhost)
    outcome = analyze_quickly(
        trace, out, window=window, poison_above=options.poison_above, only=("summary", "poison")
    )
    (poison,) = read_rows(out, "poison")
    assert (poison.message, poison.deliveries) == (8, 3)
    summary = read_rows(out, "summary")
    assert {(row.vhost, row.event): row.events for row in summary} == {
        ("shop", "publish"): 2,
        ("shop", "deliver"): 5,
    }
    assert (outcome.rejected, outcome.events) == (0, 7)
