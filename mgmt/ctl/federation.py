"""Commands for federation links: showing their status, and restarting one."""

from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import failure
from leveret.mgmt.ctl.formatters import padded_time

FEDERATION = "Federation plugin"
COLUMNS = (
    "consumer_tag", "error", "exchange", "id", "last_changed", "local_connection", "queue",
    "status", "type", "upstream", "upstream_exchange", "upstream_queue", "uri", "vhost",
)  # fmt: skip
"""RabbitMQ's columns, in its order."""
NOT_FOUND = "Link with the given ID was not found"


@command(
    "federation_status", "[--only-down]", "Displays federation link status", FEDERATION,
    "only-down",
)  # fmt: skip
def federation_status(ctl: CommandRun) -> None:
    """Show all federation links of the cluster, or those that have failed."""
    only_down = ctl.options.get("only_down")
    which = "federation links which are down" if only_down else "federation links"
    ctl.banner(f"Listing {which} on node {ctl.node}...")
    found = ctl.client.get("federation-links", *(("state", "down") if only_down else ()))
    ctl.rows([[_cell(one, column) for column in COLUMNS] for one in found], COLUMNS)


def _cell(link: dict[str, Any], column: str) -> str:
    if column == "last_changed":
        return padded_time(link["timestamp"])
    return str(link.get(column, ""))


@command(
    "restart_federation_link", "<link_id>", "Restarts a running federation link", FEDERATION
)  # fmt: skip
def restart_federation_link(ctl: CommandRun) -> None:
    """Have a federation link reconnect, on whichever node it runs."""
    link_id = ctl.argument(0)
    ctl.banner(f"Restarting federation link {link_id} on node {ctl.node}")
    link = next((one for one in ctl.client.get("federation-links") if one["id"] == link_id), None)
    if link is None:
        raise failure(NOT_FOUND)
    try:
        ctl.client.delete(
            "federation-links", "vhost", link["vhost"], link_id, link["node"], "restart"
        )
    except HttpError as error:
        raise failure(NOT_FOUND) if error.status == 404 else error from None
