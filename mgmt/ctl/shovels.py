"""Commands for shovels: showing their status, restarting one, and deleting one."""

from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import DATA_ERROR, failure
from leveret.mgmt.ctl.formatters import padded_time

SHOVELS = "Shovel plugin"
COLUMNS = {
    "name": "name", "vhost": "vhost", "type": "type", "state": "state", "source": "src_uri",
    "source_protocol": "src_protocol", "source_queue": "src_queue",
    "source_exchange": "src_exchange", "source_exchange_key": "src_exchange_key",
    "destination": "dest_uri", "destination_protocol": "dest_protocol",
    "destination_queue": "dest_queue", "destination_exchange": "dest_exchange",
    "destination_exchange_key": "dest_exchange_key", "termination_reason": "reason",
    "last_changed": "timestamp",
}  # fmt: skip
"""RabbitMQ's columns, and the fields of the API that they show."""


@command("shovel_status", "", "Displays status of Shovel on a node", SHOVELS)
def shovel_status(ctl: CommandRun) -> None:
    """Show all shovels of the cluster."""
    ctl.banner(f"Shovel status on node {ctl.node}")
    found = ctl.client.get("shovels")
    ctl.rows([[_cell(one, field) for field in COLUMNS.values()] for one in found], tuple(COLUMNS))


def _cell(shovel: dict[str, Any], field: str) -> str:
    value = str(shovel.get(field, ""))
    return padded_time(value) if field == "timestamp" else value


@command("restart_shovel", "[--vhost <vhost>] <name>", "Restarts a dynamic Shovel", SHOVELS)
def restart_shovel(ctl: CommandRun) -> None:
    """Have a shovel reconnect."""
    name = ctl.argument(0)
    ctl.banner(f"Restarting dynamic Shovel {name} in virtual host {ctl.vhost} on node {ctl.node}")
    _delete(ctl, name, "restart")


@command("delete_shovel", "[--vhost <vhost>] <name>", "Deletes a Shovel", SHOVELS)
def delete_shovel(ctl: CommandRun) -> None:
    """Delete the parameter of a shovel, which ends it."""
    name = ctl.argument(0)
    ctl.banner(f"Deleting shovel {name} in vhost {ctl.vhost}")
    _delete(ctl, name)


def _delete(ctl: CommandRun, name: str, *action: str) -> None:
    try:
        ctl.client.delete("shovels", "vhost", ctl.vhost, name, *action)
    except HttpError as error:
        if error.status != 404:
            raise
        raise failure(
            "Shovel with the given name was not found on the target node "
            f"'{ctl.node}' and / or virtual host '{ctl.vhost}'",
            DATA_ERROR,
        ) from None
