"""`leveret journey`: where one message went, hop by hop, out of a trace directory.

It needs no Spark. A message number leads at once to the hour in which the message was published,
since the numbers of a node grow, and the search ends when the message is out of all its queues;
ids are looked for in all files that the window leaves.

Exit codes: 0 if a message was found; 1 if none was, or the files cannot be read; 2 for options
that make no sense; 130 after Ctrl-C.
"""

import argparse
import json
import os
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from analytics.hops import Limits, told
from analytics.log_blocks import read_blocks
from analytics.passages import Journey, count, journeys, time_us
from analytics.search import Result, Wanted, search
from analytics.trace_files import MomentError, TraceFile, Window, read_moment, trace_files
from analytics.wording import duration, listed, moment, plural, shown
from broker.tracing import record

EXIT_FOUND, EXIT_NOT_FOUND, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
MESSAGES_MAX = 20
PROBLEMS_SHOWN_MAX = 20


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    wanted = _wanted(parser, options)
    try:
        files = trace_files(options.directory, wanted.window)
        result, found = find_journeys(files, wanted, options.processes, _progress(options))
    except OSError as error:
        sys.stderr.write(f"leveret journey: {error}\n")
        return EXIT_NOT_FOUND
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    shown_journeys = found[: options.limit]
    limits = Limits(result.gaps, result.last_us, wanted.window.to_us)
    if options.json:
        for journey in shown_journeys:
            print(json.dumps(_as_json(journey)))
    else:
        for journey in shown_journeys:
            print("\n".join(told(journey, limits)), end="\n\n")
    _tell_rest(wanted, files, result, found, options)
    return EXIT_FOUND if found else EXIT_NOT_FOUND


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leveret journey", description="Where a message went, out of a trace directory."
    )
    parser.add_argument("directory", type=Path, metavar="TRACE_DIR")
    parser.add_argument("number", type=int, nargs="?", metavar="NUMBER", help="a message number")
    parser.add_argument("--message-id", action="append", default=[], metavar="ID")
    parser.add_argument("--correlation-id", action="append", default=[], metavar="ID")
    parser.add_argument("--message", type=int, action="append", default=[], metavar="NUMBER",
                        help="a message number; the same as NUMBER")  # fmt: skip
    add_window(parser)
    parser.add_argument("--limit", type=_positive, default=MESSAGES_MAX, metavar="N",
                        help="messages to show at most (%(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="a JSON object for each message")
    parser.add_argument("--processes", type=_positive, default=os.cpu_count() or 1, metavar="N",
                        help="how many look through files (%(default)s)")  # fmt: skip
    return parser


def add_window(parser: argparse.ArgumentParser) -> None:
    """The options that say what to look at."""
    parser.add_argument("--vhost", metavar="VHOST", help="only what happened in this vhost")
    parser.add_argument("--from", type=_moment, dest="from_us", metavar="TIME",
                        help="only from here on: 2026-03-01T14:05 (UTC)")  # fmt: skip
    parser.add_argument("--to", type=_moment, dest="to_us", metavar="TIME",
                        help="only what was before")  # fmt: skip


def _moment(text: str) -> int:
    try:
        return read_moment(text)
    except MomentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)


def _wanted(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Wanted:
    numbers = [*options.message, *([] if options.number is None else [options.number])]
    if not (numbers or options.message_id or options.correlation_id):
        parser.error("say which message: --message-id ID, --correlation-id ID or a message number")
    if any(number < 1 for number in numbers):
        parser.error("message numbers are greater than 0: 0 stands for messages without one")
    if None not in (options.from_us, options.to_us) and options.from_us >= options.to_us:
        parser.error("--from is not before --to")
    window = Window(options.from_us, options.to_us, options.vhost)
    ids, correlation_ids = frozenset(options.message_id), frozenset(options.correlation_id)
    return Wanted(ids, correlation_ids, frozenset(numbers), window)


class _Progress:
    """A line on standard error that says how far it is, if somebody sees it."""

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown

    def __call__(self, done: int, total: int) -> None:
        if self._is_shown and total:
            end = "\r" if done < total else "\r\x1b[K"
            sys.stderr.write(f"\rlooked through {done * 100 // total}%{end}")
            sys.stderr.flush()


def _progress(options: argparse.Namespace) -> _Progress:
    return _Progress(sys.stderr.isatty())


# Finding


def find_journeys(
    files: Sequence[TraceFile], wanted: Wanted, processes: int,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Result, list[Journey]]:  # fmt: skip
    """The journeys of the messages that are wanted, of what they became and of what they were."""
    by_number = not (wanted.message_ids or wanted.correlation_ids)
    while True:
        chosen = files_from(files, min(wanted.numbers)) if by_number else files
        enough = _all_over if by_number else _never
        busy = min(processes, len(chosen) or 1)
        result = search(chosen, wanted, busy, enough, progress or _unseen)
        found = journeys(result.records)
        before = {
            journey.number
            for journey in found
            if journey.number and journey.number not in result.numbers
        }
        if not before:
            return result, found
        # These died and became what was found: their own beginning is earlier.
        wanted = wanted._replace(numbers=frozenset(before | wanted.numbers))


def _all_over(result: Result) -> bool:
    found = journeys(result.records)
    return bool(found) and all(journey.is_over for journey in found)


def _unseen(done: int, total: int) -> None:
    pass


def _never(_: Result) -> bool:
    return False


def files_from(files: Sequence[TraceFile], number: int) -> list[TraceFile]:
    """The files from the hour on in which a node gave out a number, for each vhost and node."""
    rows: dict[tuple[str | None, str], list[TraceFile]] = {}
    for file in files:
        rows.setdefault((file.vhost, Path(file.path).name.rsplit("-", 2)[0]), []).append(file)
    kept = [file for row in rows.values() for file in _row_from(row, number)]
    return sorted(kept, key=lambda file: (file.hour_us or 0, file.path))


def _row_from(row: list[TraceFile], number: int) -> Iterable[TraceFile]:
    """Of the files of one node, in order."""
    if any(file.hour_us is None for file in row):
        return row
    first_after = bisect_left(row, True, key=lambda file: _begins_after(file, number))
    if first_after == 0:
        return row
    hour = row[first_after - 1].hour_us
    return [file for file in row if (file.hour_us or 0) >= (hour or 0)]


def _begins_after(file: TraceFile, number: int) -> bool:
    """The file's first publish is later than the number; so it is said if there is none."""
    for block in read_blocks(file, []):
        at = block.data.find(b'"event":"publish"')
        if at >= 0:
            line = block.data[block.data.rfind(b"\n", 0, at) + 1 : block.data.find(b"\n", at)]
            try:
                return int(json.loads(line).get("message") or 0) > number
            except (ValueError, TypeError, AttributeError):
                return True
        return True
    return True


# What else there is to say


def _tell_rest(
    wanted: Wanted, files: Sequence[TraceFile], result: Result, found: list[Journey],
    options: argparse.Namespace,
) -> None:  # fmt: skip
    say = sys.stderr.write
    if len(found) > options.limit:
        say(f"{len(found) - options.limit:,} more messages are not shown (--limit)\n")
    for problem in result.problems[:PROBLEMS_SHOWN_MAX]:
        say(f"not read: {problem}\n")
    if len(result.problems) > PROBLEMS_SHOWN_MAX:
        say(f"not read: {len(result.problems) - PROBLEMS_SHOWN_MAX:,} more places\n")
    if not found:
        say(f"leveret journey: no {_asked_for(wanted)} was found\n")
        say(f"{_looked_at(wanted, files, result, options.directory)}\n")
        for reason in _reasons(wanted, result):
            say(f"{reason}\n")


def _asked_for(wanted: Wanted) -> str:
    asked = [f"message-id {shown(one)}" for one in sorted(wanted.message_ids)]
    asked += [f"correlation-id {shown(one)}" for one in sorted(wanted.correlation_ids)]
    asked += [f"number {number}" for number in sorted(wanted.numbers)]
    return f"message with {' or '.join(asked)}"


def _looked_at(
    wanted: Wanted, files: Sequence[TraceFile], result: Result, directory: Path
) -> str:  # fmt: skip
    if not files:
        limits = " for this vhost and time" if any(wanted.window) else ""
        return f"Looked at: nothing, there are no trace logs below {directory}{limits}"
    vhosts = sorted({shown(file.vhost) for file in files if file.vhost is not None})
    hours = [file.hour_us for file in files if file.hour_us is not None]
    where = f" of {'vhost' if len(vhosts) == 1 else 'vhosts'} {listed(vhosts)}" if vhosts else ""
    when = ""
    if hours:
        when = f", {moment(min(hours))[:16]} to {moment(max(hours) + 3_600_000_000)[:16]} UTC"
    return (
        f"Looked at: {result.files} of {plural(len(files), 'file')}{where}{when},"
        f" {result.unpacked_bytes / 1e6:,.0f} MB of records"
    )


def _reasons(wanted: Wanted, result: Result) -> Iterable[str]:
    samples = sorted(sample for sample in result.samples if sample > 1)
    if samples:
        yield (
            f"The log is a sample: one message in {' or '.join(map(str, samples))} is in it"
            + (", by its number" if wanted.numbers else "")
        )
    lost = [gap for gap in result.gaps if gap.get("event") == record.GAP]
    if lost:
        first = lost[0]
        records = sum(count(gap, "lost") for gap in lost)
        length = duration(max(0, count(first, "until_us") - time_us(first)))
        yield (
            f"{plural(records, 'record')} could not be written, in {plural(len(lost), 'gap')},"
            f" the first at {moment(time_us(first))} for {length}"
        )


def _as_json(journey: Journey) -> dict[str, object]:
    return {
        "message": journey.number,
        "node": journey.node,
        "vhost": journey.vhost,
        "is_over": journey.is_over,
        "came_from": journey.came_from,
        "events": journey.events,
        "queues": {
            passage.queue: {
                "state": passage.state.name.lower(),
                "deliveries": passage.deliveries,
                "came_us": passage.came_us,
            }
            for passage in journey.passages.values()
        },
    }
