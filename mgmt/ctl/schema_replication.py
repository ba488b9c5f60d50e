"""Commands for the standby of another cluster: following its definitions, and being promoted.

The names, but for `accept` and `clear`, and the form of the endpoints are those of RabbitMQ's
commercial edition. The ports of endpoints are those of management, not of AMQP.
"""

import time
from collections.abc import Iterator
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import DATA_ERROR, failure
from leveret.mgmt.ctl.vhosts import parse_json

STANDBY = "Schema replication"
ROUTE = "schema-replication"
LISTED = ("kind", "vhost", "name", "reason")


@command("set_schema_replication_upstream_endpoints", "<setting>",
         "Makes this cluster the standby of an upstream: a JSON object with endpoints, username "
         "and password", STANDBY)  # fmt: skip
def set_schema_replication_upstream_endpoints(ctl: CommandRun) -> None:
    """Follow an upstream from now on."""
    body = parse_json(ctl.argument(0))
    ctl.banner(f"Setting the upstream of schema replication on node {ctl.node} ...")
    _ask(ctl, lambda: ctl.client.put(ROUTE, body=body))


@command("clear_schema_replication", "", "Stops following the upstream, and forgets it", STANDBY)
def clear_schema_replication(ctl: CommandRun) -> None:
    """Delete the setting."""
    ctl.banner(f"Clearing schema replication on node {ctl.node} ...")
    _ask(ctl, lambda: ctl.client.delete(ROUTE))


@command("enable_schema_replication", "", "Follows the upstream again", STANDBY)
def enable_schema_replication(ctl: CommandRun) -> None:
    """End what `disable_schema_replication` began."""
    _act(ctl, "enable", "Enabling schema replication")


@command("disable_schema_replication", "", "Stops following the upstream until it is enabled",
         STANDBY)  # fmt: skip
def disable_schema_replication(ctl: CommandRun) -> None:
    """Stay a standby, and leave the definitions as they are."""
    _act(ctl, "disable", "Disabling schema replication")


@command("restart_schema_replication", "", "Reconnects to the upstream, and syncs now", STANDBY)
def restart_schema_replication(ctl: CommandRun) -> None:
    """Sync now."""
    _act(ctl, "restart", "Restarting schema replication")


@command("accept_schema_replication", "",
         "Follows the upstream although it lacks most definitions of this cluster",
         STANDBY)  # fmt: skip
def accept_schema_replication(ctl: CommandRun) -> None:
    """Continue a sync that is held."""
    _act(ctl, "accept", "Accepting an upstream that lacks most definitions")


@command("promote_warm_standby", "",
         "Ends following the upstream, and starts shovels and federation links",
         STANDBY)  # fmt: skip
def promote_warm_standby(ctl: CommandRun) -> None:
    """Make the standby a cluster of its own."""
    _act(ctl, "promote", "Promoting the standby")


def _act(ctl: CommandRun, action: str, doing: str) -> None:
    ctl.banner(f"{doing} on node {ctl.node} ...")
    _ask(ctl, lambda: ctl.client.post(ROUTE, action))


def _ask(ctl: CommandRun, request: Any) -> None:
    try:
        request()
    except HttpError as error:
        if error.status not in (400, 409):
            raise
        raise failure(error.reason, DATA_ERROR) from None


@command("schema_replication_status", "", "Displays the state of schema replication", STANDBY)
def schema_replication_status(ctl: CommandRun) -> None:
    """Show the upstream, and the state of the last sync."""
    ctl.banner(f"Schema replication status on node {ctl.node}")
    found = ctl.client.get(ROUTE)
    ctl.facts(found, _lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"Operating mode: {found['operating_mode']}"
    yield f"State: {found['state']}"
    if found["reason"]:
        yield f"Reason: {found['reason']}"
    upstream = found["upstream"]
    if upstream is None:
        return
    yield f"Upstream endpoint(s): {', '.join(upstream['endpoints'])}"
    yield f"Upstream username: {upstream['username']}"
    yield f"Followed by node: {found['node']}"
    syncs = found["syncs"]
    if syncs["last_complete_at"] is not None:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(syncs["last_complete_at"]))
        yield f"Last complete comparison: {at}"
    for title in ("kept", "problems"):
        for one in found[title]:
            yield f"{title.capitalize()}: " + " ".join(str(one[name] or "") for name in LISTED)
        more = found[f"{title}_count"] - len(found[title])
        if more:
            yield f"{title.capitalize()}: {more} more"
