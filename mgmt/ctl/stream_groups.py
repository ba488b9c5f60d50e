"""Commands for groups of single active consumers of streams, which rabbitmq-streams has.

A group is made of the consumers of a stream that have the same name.
"""

from collections.abc import Iterable
from typing import Any, Final

from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import failure
from leveret.mgmt.ctl.listing import LISTS
from leveret.mgmt.ctl.stream_positions import required
from leveret.mgmt.ctl.vhosts import check_columns

GROUPS: Final = ("stream", "reference", "partition_index", "consumers")
CONSUMERS: Final = ("subscription_id", "connection_name", "state")
NO_GROUP: Final = "The group does not exist"
NO_PARTITION: Final = -1


@command("list_stream_consumer_groups", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists groups of stream single active consumers for a vhost", LISTS,
         columns=GROUPS)  # fmt: skip
def list_stream_consumer_groups(ctl: CommandRun) -> None:
    """List the groups of all streams of a virtual host."""
    ctl.banner("Listing stream consumer groups ...")
    columns = check_columns(ctl.arguments, GROUPS) or GROUPS
    sizes: dict[tuple[str, str], int] = {}
    for one in _grouped(ctl.client.rows("stream", "consumers", ctl.vhost)):
        key = one["queue"]["name"], one["properties"]["name"]
        sizes[key] = sizes.get(key, 0) + 1
    partitions = _partitions(ctl) if sizes and "partition_index" in columns else {}
    rows = [
        {
            "stream": stream, "reference": name, "consumers": size,
            "partition_index": partitions.get(stream, NO_PARTITION),
        }
        for (stream, name), size in sorted(sizes.items())
    ]  # fmt: skip
    ctl.rows(([row[column] for column in columns] for row in rows), columns)


def _partitions(ctl: CommandRun) -> dict[str, int]:
    """The numbers of the streams that are partitions of super streams."""
    return {
        partition["stream"]: number
        for one in ctl.client.rows("stream", "super-streams", ctl.vhost)
        for number, partition in enumerate(one["partitions"])
    }


@command("list_stream_group_consumers", "--stream <stream> --reference <reference> "
         "[--vhost <vhost>] [--no-table-headers] [<column> ...]", "Lists consumers of a stream "
         "consumer group in a vhost", LISTS, "stream=", "reference=", counts=(0, None),
         columns=CONSUMERS)  # fmt: skip
def list_stream_group_consumers(ctl: CommandRun) -> None:
    """List the consumers of one group, with which of them is active."""
    stream, name = required(ctl, "stream", "reference")
    ctl.banner("Listing group consumers ...")
    columns = check_columns(ctl.arguments, CONSUMERS) or CONSUMERS
    rows = [
        {
            "subscription_id": one["subscription_id"],
            "connection_name": one["connection_details"]["name"],
            "state": "active" if one["active"] else "inactive",
        }
        for one in _consumers(ctl, stream, name)
    ]  # fmt: skip
    ctl.rows(([row[column] for column in columns] for row in rows), columns)


@command("activate_stream_consumer", "--stream <stream> --reference <reference> [--vhost <vhost>]",
         "Checks that a stream consumer group has an active consumer", LISTS, "stream=",
         "reference=", counts=(0, 0))  # fmt: skip
def activate_stream_consumer(ctl: CommandRun) -> None:
    """Say whether a consumer is active.

    The leader of the stream makes one active by itself: a group is without one only while another
    consumer is asked to stop, or until its client answers.
    """
    stream, name = required(ctl, "stream", "reference")
    ctl.banner("Activating a consumer in the group ...")
    if not any(one["active"] for one in _consumers(ctl, stream, name)):
        raise failure(
            "The group has no active consumer now: its stream has no leader, or a client has not "
            "answered that its consumer has stopped. Close the connection of this client"
        )
    ctl.say("OK")


def _consumers(ctl: CommandRun, stream: str, name: str) -> list[dict[str, Any]]:
    """The consumers of a group. Raises CtlError if there are none."""
    found = _grouped(ctl.client.rows("stream", "consumers", ctl.vhost, stream))
    group = [one for one in found if one["properties"]["name"] == name]
    if not group:
        raise failure(NO_GROUP)
    return group


def _grouped(consumers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are in a group."""
    return [one for one in consumers if one["activity_status"] != "up"]
