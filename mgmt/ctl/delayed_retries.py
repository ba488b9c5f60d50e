"""Commands for messages that wait for their retry (docs/operate/delayed-retries.md)."""

from typing import Any, Final

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, USAGE, failure, no_such
from leveret.mgmt.ctl.instants import utc_text

QUEUES: Final = "Queues"
COLUMNS: Final = ("position", "due_at", "returns", "message_id", "routing_key", "payload_bytes")
COUNT: Final = "1000"
CHOICE: Final = "<queue> [--vhost <vhost>] --all|--position <position>|--message-id <id>"
OPTIONS: Final = ("all", "position=", "message-id=")


@command("list_delayed_retries", "<queue> [--vhost <vhost>]", "Lists the messages of a queue that "
         "wait for a retry, the next due first", QUEUES)  # fmt: skip
def list_delayed_retries(ctl: CommandRun) -> None:
    """List at most 1000 messages."""
    name = ctl.argument(0)
    ctl.banner(f"Listing delayed retries of queue '{name}' in vhost '{ctl.vhost}' ...")
    try:
        found = ctl.client.get("queues", ctl.vhost, name, "retries", count=COUNT)
    except HttpError as error:
        raise _error(ctl, name, error) from None
    ctl.rows([[_shown(one)[column] for column in COLUMNS] for one in found["items"]], COLUMNS)


@command("deliver_delayed_retries", CHOICE, "Delivers messages that wait for a retry, at once",
         QUEUES, *OPTIONS, counts=(1, 1))  # fmt: skip
def deliver_delayed_retries(ctl: CommandRun) -> None:
    """Deliver one message, those with an id, or all."""
    _end(ctl, "deliver", "Delivering", "delivered")


@command("discard_delayed_retries", CHOICE, "Drops messages that wait for a retry, without "
         "dead-lettering them", QUEUES, *OPTIONS, counts=(1, 1))  # fmt: skip
def discard_delayed_retries(ctl: CommandRun) -> None:
    """Drop one message, those with an id, or all."""
    _end(ctl, "discard", "Discarding", "discarded")


def _end(ctl: CommandRun, operation: str, doing: str, done: str) -> None:
    name = ctl.argument(0)
    body = _chosen(ctl)
    ctl.banner(f"{doing} delayed retries of queue '{name}' in vhost '{ctl.vhost}' ...")
    try:
        answer = ctl.client.post("queues", ctl.vhost, name, "retries", operation, body=body)
    except HttpError as error:
        raise _error(ctl, name, error) from None
    ctl.say(f"{answer['done']} messages were {done}")


def _chosen(ctl: CommandRun) -> dict[str, Any]:
    options = ctl.options
    choices = {
        "all": True if options.get("all") else None,
        "positions": options.get("position"),
        "message_id": options.get("message_id"),
    }
    given = {name: value for name, value in choices.items() if value is not None}
    if len(given) != 1:
        raise failure("choose messages by one of --all, --position and --message-id", USAGE)
    if "positions" in given:
        position = str(given["positions"])
        if not (position.isascii() and position.isdigit()):
            raise failure(f"--position {position} is not a number of list_delayed_retries", USAGE)
        return {"positions": [int(position)]}
    return given


def _shown(one: dict[str, Any]) -> dict[str, Any]:
    properties = one["properties"] or {}
    return {
        **one,
        "due_at": utc_text(one["due_at"]),
        "message_id": properties.get("message_id", ""),
    }


def _error(ctl: CommandRun, name: str, error: HttpError) -> Exception:
    return no_such("Queue", name, ctl.vhost, UNAVAILABLE) if error.status == 404 else error
