"""Commands for messages that reached no queue."""

from typing import Final

from leveret.mgmt.ctl.command import CommandRun, command

VHOSTS: Final = "Virtual hosts"
COLUMNS: Final = ("exchange", "prefix", "messages", "returned")
MESSAGE_COLUMNS: Final = ("exchange", "routing_key", "user", "returned", "payload_bytes", "payload")
COUNT: Final = "1000"
PAYLOAD_CHARACTERS: Final = 60


@command("show_unroutable", "[--vhost <vhost>] [--messages]", "Shows how many messages reached no "
         "queue, by exchange and the beginning of the routing key, or the last of these messages",
         VHOSTS, "messages", counts=(0, 0))  # fmt: skip
def show_unroutable(ctl: CommandRun) -> None:
    """Show counts, or the last messages."""
    wants_messages = bool(ctl.options.get("messages"))
    ctl.banner(f"Listing unroutable messages of vhost '{ctl.vhost}' ...")
    count = COUNT if wants_messages else "0"
    found = ctl.client.get("unroutable", ctl.vhost, count=count)
    if not wants_messages:
        ctl.rows([[one[name] for name in COLUMNS] for one in found["counts"]], COLUMNS)
        return
    for one in found["items"]:
        one["payload"] = one["payload"][:PAYLOAD_CHARACTERS]
    ctl.rows([[one[name] for name in MESSAGE_COLUMNS] for one in found["items"]], MESSAGE_COLUMNS)


@command("forget_unroutable", "[--vhost <vhost>]", "Forgets the unroutable messages that were "
         "counted and kept so far", VHOSTS, counts=(0, 0))  # fmt: skip
def forget_unroutable(ctl: CommandRun) -> None:
    """Forget counts and messages."""
    ctl.banner(f"Forgetting unroutable messages of vhost '{ctl.vhost}' ...")
    ctl.client.delete("unroutable", ctl.vhost)
