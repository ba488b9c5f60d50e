"""Commands for positions in streams: copying messages to a queue, and the offsets of consumers."""

import time
from typing import Any, Final

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, USAGE, CtlError, UsageError, failure
from leveret.mgmt.ctl.streams import tracked

QUEUES: Final = "Queues"
PROGRESS_SECONDS: Final = 5.0


@command("copy_stream", "[--vhost <vhost>] <stream> --from <time|offset> [--to <time|offset>] "
         "--queue <queue>", "Copies the messages of a stream between two times or offsets to a "
         "queue", QUEUES, "from=", "to=", "queue=", counts=(1, 1))  # fmt: skip
def copy_stream(ctl: CommandRun) -> None:
    """Copy part after part, and show how far that is."""
    stream, queue = ctl.argument(0), ctl.options.get("queue")
    start = ctl.options.get("from")
    if not queue or start is None:
        raise failure("say where it begins, and the queue: '--from 1h --queue copies'", USAGE)
    ctl.banner(f"Copying stream '{stream}' to queue '{queue}' in vhost '{ctl.vhost}' ...")
    ctl.take_time()
    stop = ctl.options.get("to", "next")
    done = _copy(ctl, stream, {"queue": queue, "from": start, "to": stop, "goes_on": False})
    copied, first, end = done["copied"], done["first"], done["end"]
    said = f"Copied {copied} messages, of offsets {first} to {end - 1}"
    if not copied:
        said = "Copied nothing: there are no messages between these positions"
    elif end - first > copied:
        said += f"; {end - first - copied} are left out, since they are gone or cannot be read"
    ctl.say(said, **done)


def _copy(ctl: CommandRun, stream: str, asked: dict[str, Any]) -> dict[str, int]:
    """Copy all parts. The offsets of the first part are those of the whole copy."""
    copied, first, end = 0, -1, -1
    shown_at = time.monotonic()
    while True:
        try:
            part = ctl.client.post("stream", ctl.vhost, stream, "copy", body=asked)
        except (HttpError, CtlError) as error:
            if not asked["goes_on"]:
                raise
            raise failure(
                f"copied {copied} messages, and then: {_reason(error)}. The rest begins at offset "
                f"{asked['from']}: '--from {asked['from']} --to {end}' goes on; messages after it "
                "may have been copied already",
                UNAVAILABLE,
            ) from None
        copied += part["taken"]
        if not asked["goes_on"]:
            first, end = part["first"], max(part["first"], part["end"])
        asked = {**asked, "from": part["next_offset"], "to": end, "goes_on": True}
        if part["next_offset"] >= end:
            return {"copied": copied, "first": first, "end": end}
        if time.monotonic() - shown_at > PROGRESS_SECONDS and not ctl.is_quiet:
            shown_at = time.monotonic()
            ctl.out(f"{copied} messages, through offset {part['next_offset'] - 1} of {end - 1}")


def _reason(error: CtlError) -> str:
    return str(error.text).removeprefix("Error: ").removeprefix("Error:\n")


@command("reset_stream_offset", "[--vhost <vhost>] <stream> <name> --to <time|offset>",
         "Stores an offset under a consumer's name, so that it goes on with the message there",
         QUEUES, "to=", counts=(2, 2))  # fmt: skip
def reset_stream_offset(ctl: CommandRun) -> None:
    """Set the offset that a consumer of the stream protocol has stored."""
    stream, name = ctl.argument(0), ctl.argument(1)
    to = ctl.options.get("to")
    if to is None:
        raise failure("say with which message it goes on: '--to 1000' or '--to 1h'", USAGE)
    ctl.banner(f"Resetting the offset of consumer '{name}' of stream '{stream}' ...")
    done = ctl.client.post("stream", ctl.vhost, stream, "offsets", body={"name": name, "to": to})
    before = "none" if done["before"] is None else done["before"]
    ctl.say(f"Consumer '{name}' goes on with offset {done['stored'] + 1}; stored was {before}",
            **done)  # fmt: skip


@command("reset_offset", "--stream <stream> --reference <reference> [--vhost <vhost>]",
         "Has a consumer begin again, with the oldest message that is kept", QUEUES, "stream=",
         "reference=", counts=(0, 0))  # fmt: skip
def reset_offset(ctl: CommandRun) -> None:
    """Set the offset that is stored under a name to 0, as rabbitmq-streams does."""
    stream, name = required(ctl, "stream", "reference")
    ctl.banner("Resetting stored offset ...")
    if name not in {reference for kind, reference, _ in tracked(ctl, stream) if kind == "offset"}:
        raise failure("There is no stored offset for this reference, no need to reset")
    ctl.client.post("stream", ctl.vhost, stream, "offsets", body={"name": name, "to": 1})
    if not ctl.is_quiet:
        ctl.say("Done")


@command("list_stream_tracking", "<stream> [--all | --offset | --writer] [--vhost <vhost>]",
         "Lists what a stream stores for its clients: offsets, and the last publishing ids of "
         "writers", QUEUES, "all", "offset", "writer")  # fmt: skip
def list_stream_tracking(ctl: CommandRun) -> None:
    """List stored offsets and publishing ids."""
    stream = ctl.argument(0)
    chosen = [kind for kind in ("all", "offset", "writer") if ctl.options.get(kind)]
    if len(chosen) > 1:
        raise UsageError("Specify only one of --all, --offset, --writer.")
    ctl.banner(f"Listing tracking information for stream {stream} ...")
    kinds = {"offset": "offset", "sequence": "writer"}
    rows = [(kinds[kind], name, number) for kind, name, number in tracked(ctl, stream)]
    wanted = [row for row in rows if chosen in ([], ["all"], [row[0]])]
    ctl.rows(wanted, ("type", "name", "tracking_value"))


def required(ctl: CommandRun, *names: str) -> list[str]:
    """The values of options that a command must have. Raises UsageError."""
    values = [ctl.options.get(name) for name in names]
    if not all(values):
        raise UsageError("not enough arguments.")
    return [str(value) for value in values]
