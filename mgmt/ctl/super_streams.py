"""Commands that declare and delete super streams, which rabbitmq-streams has."""

from typing import Any, Final

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, failure

QUEUES: Final = "Queues"
NOT_FOUND: Final = 404
PARTITIONS: Final = 3
"""RabbitMQ's default."""
_ARGUMENTS: Final = {
    "leader_locator": "x-queue-leader-locator", "max_age": "x-max-age",
    "max_length_bytes": "x-max-length-bytes",
    "stream_max_segment_size_bytes": "x-stream-max-segment-size-bytes",
    "initial_cluster_size": "x-initial-cluster-size",
}  # fmt: skip
"""The arguments of the streams, by the options."""


@command("add_super_stream", "[--vhost <vhost>] <name> [--partitions <number> | "
         "--binding-keys <key,key>] [--max-age <age>] [--max-length-bytes <bytes>] "
         "[--stream-max-segment-size-bytes <bytes>] [--leader-locator <locator>] "
         "[--initial-cluster-size <number>]",
         "Declares a super stream: an exchange, and a stream for each partition", QUEUES,
         "partitions=#", "binding-keys=", "max-age=", "max-length-bytes=#",
         "stream-max-segment-size-bytes=#", "leader-locator=",
         "initial-cluster-size=#")  # fmt: skip
def add_super_stream(ctl: CommandRun) -> None:
    """Declare a super stream. A stream has the name of the super stream, and its key."""
    name = ctl.argument(0)
    ctl.banner(f"Adding a super stream {name} ...")
    options = ctl.options
    arguments = {_ARGUMENTS[one]: value for one, value in options.items() if one in _ARGUMENTS}
    body: dict[str, Any] = {"arguments": arguments}
    if "binding_keys" in options:
        body["binding-keys"] = options["binding_keys"]
    if "partitions" in options or "binding_keys" not in options:
        body["partitions"] = options.get("partitions", PARTITIONS)
    ctl.client.put("stream", "super-streams", ctl.vhost, name, body=body)


@command("delete_super_stream", "[--vhost <vhost>] <name>",
         "Deletes a super stream: its exchange and its streams", QUEUES)  # fmt: skip
def delete_super_stream(ctl: CommandRun) -> None:
    """Delete a super stream, with all of its messages."""
    name = ctl.argument(0)
    ctl.banner(f"Deleting super stream {name} ...")
    try:
        ctl.client.delete("stream", "super-streams", ctl.vhost, name)
    except HttpError as error:
        if error.status != NOT_FOUND:
            raise
        text = f"there is no super stream '{name}' in vhost '{ctl.vhost}'"
        raise failure(text, UNAVAILABLE) from None
