"""Commands for messages that wait at exchanges of the type x-delayed-message."""

from typing import Any, Final

from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import USAGE, failure
from leveret.mgmt.ctl.instants import utc_text

VHOSTS: Final = "Virtual hosts"
COLUMNS: Final = ("due", "message_id", "routing_key", "payload_bytes", "payload")
COUNT: Final = "1000"
PAYLOAD_CHARACTERS: Final = 60
CHOICE: Final = "[--message-id <id>] [--header <name[:pattern]>]"


@command("list_delayed_messages", f"[--vhost <vhost>] <exchange> {CHOICE}", "Lists the messages "
         "that wait at an exchange of the type x-delayed-message, the next due first", VHOSTS,
         "message-id=", "header=", counts=(1, 1))  # fmt: skip
def list_delayed_messages(ctl: CommandRun) -> None:
    """List the first that are due."""
    exchange = ctl.argument(0)
    ctl.banner(f"Listing delayed messages of exchange '{exchange}' in vhost '{ctl.vhost}' ...")
    query = {
        name: str(ctl.options[name]) for name in ("message_id", "header") if ctl.options.get(name)
    }
    found = ctl.client.get("exchanges", ctl.vhost, exchange, "delayed", count=COUNT, **query)
    ctl.rows([_row(one) for one in found["items"]], COLUMNS)
    if len(found["items"]) < found["matching"]:
        ctl.out(f"The first {len(found['items'])} of {found['matching']} messages.")


def _row(one: dict[str, Any]) -> list[Any]:
    properties = one["properties"] or {}
    return [
        utc_text(one["due_ms"]),
        properties.get("message_id", ""), one["routing_key"], one["payload_bytes"],
        one["payload"][:PAYLOAD_CHARACTERS],
    ]  # fmt: skip


@command("send_delayed_messages", f"[--vhost <vhost>] <exchange> {CHOICE} [--all]", "Sends "
         "messages now that wait at an exchange of the type x-delayed-message", VHOSTS,
         "message-id=", "header=", "all", counts=(1, 1))  # fmt: skip
def send_delayed_messages(ctl: CommandRun) -> None:
    """Send chosen messages before their time."""
    _act(ctl, "Sending", "send", "sent")


@command("cancel_delayed_messages", f"[--vhost <vhost>] <exchange> {CHOICE} [--all]", "Drops "
         "messages that wait at an exchange of the type x-delayed-message", VHOSTS,
         "message-id=", "header=", "all", counts=(1, 1))  # fmt: skip
def cancel_delayed_messages(ctl: CommandRun) -> None:
    """Drop chosen messages."""
    _act(ctl, "Cancelling", "cancel", "cancelled")


def _act(ctl: CommandRun, doing: str, act: str, done: str) -> None:
    exchange, options = ctl.argument(0), ctl.options
    message_id, header = options.get("message_id"), options.get("header")
    if bool(message_id or header) == bool(options.get("all")):
        raise failure("say either --message-id or --header, or --all for all messages", USAGE)
    ctl.banner(f"{doing} delayed messages of exchange '{exchange}' in vhost '{ctl.vhost}' ...")
    ctl.take_time()
    body = {"all": True} if options.get("all") else {
        "message_ids": [message_id] if message_id else [], "header": header,
    }  # fmt: skip
    answer = ctl.client.post("exchanges", ctl.vhost, exchange, "delayed", act, body=body)
    ctl.say(f"{answer[done]} messages were {done}", **answer)
