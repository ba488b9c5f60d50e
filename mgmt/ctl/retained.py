"""Commands for retained messages of MQTT."""

from typing import Final

from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import USAGE, failure

MQTT: Final = "MQTT plugin"
COLUMNS: Final = ("topic", "qos", "payload_bytes", "expires_at")
COUNT: Final = 10_000


@command("list_retained_messages", "[--vhost <vhost>] [<filter>]", "Lists the retained messages "
         "of MQTT whose topics match a filter, or all", MQTT, counts=(0, 1))  # fmt: skip
def list_retained_messages(ctl: CommandRun) -> None:
    """List the topics, and what their messages are."""
    ctl.banner(f"Listing retained messages of vhost '{ctl.vhost}' ...")
    topic_filter = ctl.argument(0) if ctl.arguments else "#"
    found = ctl.client.get("mqtt", "retained", ctl.vhost, filter=topic_filter, count=str(COUNT))
    ctl.rows([[one[name] for name in COLUMNS] for one in found["items"]], COLUMNS)
    if len(found["items"]) == COUNT < found["messages"]:
        ctl.out(f"The first {COUNT} of the vhost's {found['messages']} messages.")


@command("clear_retained_messages", "[--vhost <vhost>] [<topic>] [--all]", "Removes the retained "
         "message of a topic, or all of a vhost", MQTT, "all", counts=(0, 1))  # fmt: skip
def clear_retained_messages(ctl: CommandRun) -> None:
    """Remove one message, or all of them."""
    if bool(ctl.arguments) == bool(ctl.options.get("all")):
        raise failure("say either a topic, or --all for all messages of the vhost", USAGE)
    if ctl.arguments:
        topic = ctl.argument(0)
        ctl.banner(f"Removing the retained message of '{topic}' in vhost '{ctl.vhost}' ...")
        ctl.client.delete("mqtt", "retained", ctl.vhost, topic)
        return
    ctl.banner(f"Removing all retained messages of vhost '{ctl.vhost}' ...")
    ctl.client.delete("mqtt", "retained", ctl.vhost)
