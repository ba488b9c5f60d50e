"""`leveret journey`: finds one message in a trace directory and prints its events.

It does not need Spark. A message number leads directly to the hour of its publish, since a node's
numbers increase with time, and the search ends when the message has left all its queues. With the
logs of several nodes it begins at the earliest of their hours, as any of them may have published
the message. Ids are searched in all files of the window. A message of a stream is named by its
offset (stream_journey.py).

Exit codes: 0 if a message was found; 1 if none was found or the files cannot be read; 2 for invalid
options; 130 after Ctrl-C.
"""

import argparse
import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from leveret.analytics.formatting import duration, listed, moment, plural, shown
from leveret.analytics.journey.journey_text import SearchRange, journey_lines
from leveret.analytics.journey.journeys import Journey, count, journeys, time_us
from leveret.analytics.journey.search import SearchResult, WantedMessages, search
from leveret.analytics.journey.stream_journey import StreamMessage, records_of, stream_lines
from leveret.analytics.traces.log_blocks import Problem, read_blocks
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow, read_moment, trace_files
from leveret.broker.resources.available_processors import available_processors
from leveret.broker.tracing import record

EXIT_FOUND, EXIT_NOT_FOUND, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
MESSAGES_MAX = 20
PROBLEMS_SHOWN_MAX = 20


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    if options.stream is not None:
        return _stream_journey(parser, options)
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
    search_range = SearchRange(result.gaps, result.last_us, wanted.window.to_us)
    if options.json:
        for journey in shown_journeys:
            print(json.dumps(_as_json(journey)))
    else:
        for journey in shown_journeys:
            print("\n".join(journey_lines(journey, search_range)), end="\n\n")
    _report_search(wanted, files, result, found, options)
    return EXIT_FOUND if found else EXIT_NOT_FOUND


def _stream_journey(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Show a message of a stream, and return the exit code."""
    if options.offset is None or options.offset < 0:
        parser.error("--stream needs the --offset of a message, which is 0 or more")
    window = _window(parser, options)
    wanted = StreamMessage(options.stream, options.offset, options.vhost)
    problems: list[Problem] = []
    try:
        found = records_of(trace_files(options.directory, window), wanted, window, problems)
    except OSError as error:
        sys.stderr.write(f"leveret journey: {error}\n")
        return EXIT_NOT_FOUND
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        sys.stderr.write(f"not read: {problem}\n")
    if not found:
        sys.stderr.write(
            f"leveret journey: no record about offset {wanted.offset} of stream"
            f" {shown(wanted.stream)} was found in {options.directory}\n"
        )
        return EXIT_NOT_FOUND
    if options.json:
        print(json.dumps({"stream": wanted.stream, "offset": wanted.offset, "events": found}))
    else:
        print("\n".join(stream_lines(found, wanted)), end="\n\n")
    return EXIT_FOUND


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leveret journey", description="Find a message in a trace directory, print its events."
    )
    parser.add_argument("directory", type=Path, metavar="TRACE_DIR")
    parser.add_argument("number", type=int, nargs="?", metavar="NUMBER", help="a message number")
    parser.add_argument("--message-id", action="append", default=[], metavar="ID")
    parser.add_argument("--correlation-id", action="append", default=[], metavar="ID")
    parser.add_argument("--message", type=int, action="append", default=[], metavar="NUMBER",
                        help="a message number; the same as NUMBER")  # fmt: skip
    parser.add_argument("--stream", metavar="NAME", help="the stream that has the message")
    parser.add_argument("--offset", type=int, metavar="OFFSET", help="its offset in this stream")
    add_window(parser)
    parser.add_argument("--limit", type=_positive, default=MESSAGES_MAX, metavar="N",
                        help="messages to show at most (%(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="a JSON object for each message")
    parser.add_argument("--processes", type=_positive, default=available_processors(), metavar="N",
                        help="processes that search files (%(default)s)")  # fmt: skip
    return parser


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add the options for the window: --vhost, --from and --to."""
    parser.add_argument("--vhost", metavar="VHOST", help="only records of this virtual host")
    parser.add_argument("--from", type=read_moment, dest="from_us", metavar="TIME",
                        help="start time, for example 2026-03-01T14:05 (UTC)")  # fmt: skip
    parser.add_argument("--to", type=read_moment, dest="to_us", metavar="TIME",
                        help="end time (exclusive)")  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return int(text)


def _wanted(parser: argparse.ArgumentParser, options: argparse.Namespace) -> WantedMessages:
    numbers = [*options.message, *([] if options.number is None else [options.number])]
    if not (numbers or options.message_id or options.correlation_id):
        parser.error("name a message: --message-id ID, --correlation-id ID or a message number")
    if any(number < 1 for number in numbers):
        parser.error("message numbers are greater than 0: 0 means that a message has none")
    window = _window(parser, options)
    ids, correlation_ids = frozenset(options.message_id), frozenset(options.correlation_id)
    return WantedMessages(ids, correlation_ids, frozenset(numbers), window)


def _window(parser: argparse.ArgumentParser, options: argparse.Namespace) -> TraceWindow:
    if None not in (options.from_us, options.to_us) and options.from_us >= options.to_us:
        parser.error("--from must be before --to")
    return TraceWindow(options.from_us, options.to_us, options.vhost)


class _SearchProgress:
    """Writes the progress of the search to standard error, if that is a terminal."""

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown

    def __call__(self, done: int, total: int) -> None:
        if self._is_shown and total:
            end = "\r" if done < total else "\r\x1b[K"
            sys.stderr.write(f"\rsearched {done * 100 // total}%{end}")
            sys.stderr.flush()


def _progress(options: argparse.Namespace) -> _SearchProgress:
    return _SearchProgress(sys.stderr.isatty())


# Search


def find_journeys(
    files: Sequence[TraceFile], wanted: WantedMessages, processes: int,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[SearchResult, list[Journey]]:  # fmt: skip
    """Return the journeys of the wanted messages, and of the dead letters before and after them."""
    by_number = not (wanted.message_ids or wanted.correlation_ids)
    while True:
        chosen = files_from(files, min(wanted.numbers)) if by_number else files
        enough = _are_finished if by_number else _never
        busy = min(processes, len(chosen) or 1)
        result = search(chosen, wanted, busy, enough, progress or _no_progress)
        found = journeys(result.records)
        before = {
            journey.number
            for journey in found
            if journey.number and journey.number not in result.numbers
        }
        if not before:
            return result, found
        # These messages were dead-lettered and became the ones found: their journeys begin earlier.
        wanted = wanted._replace(numbers=frozenset(before | wanted.numbers))


def _are_finished(result: SearchResult) -> bool:
    found = journeys(result.records)
    return bool(found) and all(journey.is_over for journey in found)


def _no_progress(done: int, total: int) -> None:
    pass


def _never(_: SearchResult) -> bool:
    return False


def files_from(files: Sequence[TraceFile], number: int) -> list[TraceFile]:
    """Return the files from the hour of a message number on."""
    by_node: dict[tuple[str | None, str], list[TraceFile]] = {}
    for file in files:
        by_node.setdefault((file.vhost, Path(file.path).name.rsplit("-", 2)[0]), []).append(file)
    hours: dict[str | None, int] = {}
    for (vhost, _), of_node in by_node.items():
        hour_us = _hour_of(of_node, number)
        hours[vhost] = min(hours.get(vhost, hour_us), hour_us)
    kept = [
        file
        for (vhost, _), of_node in by_node.items()
        for file in of_node
        if (file.hour_us or 0) >= hours[vhost]
    ]
    return sorted(kept, key=lambda file: (file.hour_us or 0, file.path))


def _hour_of(files: list[TraceFile], number: int) -> int:
    """Return the hour of the number's publish if it is in these files of one node, in order of
    time; 0 if they have no hours.
    """
    if any(file.hour_us is None for file in files):
        return 0
    first_after = bisect_left(files, True, key=lambda file: _begins_after(file, number))
    return files[max(0, first_after - 1)].hour_us or 0


def _begins_after(file: TraceFile, number: int) -> bool:
    """The file's first publish has a higher number. True if the file has no publish."""
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


# Messages about the search


def _report_search(
    wanted: WantedMessages, files: Sequence[TraceFile], result: SearchResult, found: list[Journey],
    options: argparse.Namespace,
) -> None:  # fmt: skip
    say = sys.stderr.write
    if len(found) > options.limit:
        say(f"{len(found) - options.limit:,} more messages are not shown (--limit)\n")
    for problem in result.problems[:PROBLEMS_SHOWN_MAX]:
        say(f"not read: {problem}\n")
    if len(result.problems) > PROBLEMS_SHOWN_MAX:
        say(f"not read: {len(result.problems) - PROBLEMS_SHOWN_MAX:,} more problems\n")
    if not found:
        say(f"leveret journey: no {_asked_for(wanted)} was found\n")
        say(f"{_looked_at(wanted, files, result, options.directory)}\n")
        for reason in _reasons(wanted, result):
            say(f"{reason}\n")


def _asked_for(wanted: WantedMessages) -> str:
    asked = [f"message-id {shown(one)}" for one in sorted(wanted.message_ids)]
    asked += [f"correlation-id {shown(one)}" for one in sorted(wanted.correlation_ids)]
    asked += [f"number {number}" for number in sorted(wanted.numbers)]
    return f"message with {' or '.join(asked)}"


def _looked_at(
    wanted: WantedMessages, files: Sequence[TraceFile], result: SearchResult, directory: Path
) -> str:  # fmt: skip
    if not files:
        restriction = " for this vhost and time" if any(wanted.window) else ""
        return f"Searched: nothing, there are no trace logs below {directory}{restriction}"
    vhosts = sorted({shown(file.vhost) for file in files if file.vhost is not None})
    hours = [file.hour_us for file in files if file.hour_us is not None]
    where = f" of {'vhost' if len(vhosts) == 1 else 'vhosts'} {listed(vhosts)}" if vhosts else ""
    when = ""
    if hours:
        when = f", {moment(min(hours))[:16]} to {moment(max(hours) + 3_600_000_000)[:16]} UTC"
    return (
        f"Searched: {result.files} of {plural(len(files), 'file')}{where}{when},"
        f" {result.unpacked_bytes / 1e6:,.0f} MB of records"
    )


def _reasons(wanted: WantedMessages, result: SearchResult) -> Iterable[str]:
    samples = sorted(sample for sample in result.samples if sample > 1)
    if samples:
        yield (
            f"The log is a sample of one message in {' or '.join(map(str, samples))}"
            + (", chosen by its number" if wanted.numbers else "")
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
            history.queue: {
                "state": history.state.name.lower(),
                "deliveries": history.deliveries,
                "came_us": history.came_us,
            }
            for history in journey.histories.values()
        },
    }
