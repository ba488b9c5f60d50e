"""Events of shovels: a change of the state, and the end of a shovel on this node.

Names and fields are those of RabbitMQ's `rabbit_shovel_status`.
"""

from leveret.broker.events.events import Events
from leveret.broker.moving.shovels.status import STARTING, TERMINATED, WAITING, ShovelStatus

PROTOCOL = "amqp091"
"""RabbitMQ's name for AMQP 0-9-1, which both ends of a shovel speak."""


def shovel_changed(events: Events, status: ShovelStatus) -> None:
    """A shovel has begun, moves messages from now on, or does not run."""
    if events.are_wanted:
        state: dict[str, str] = {"status": status.state}
        if status.state == TERMINATED:
            state["reason"] = status.reason
        elif status.state not in (STARTING, WAITING):
            state |= way_of(status)
        events.notify("shovel.worker.status", {**_identity(status), **state})


def shovel_removed(events: Events, status: ShovelStatus) -> None:
    """A shovel has ended, or another node runs it."""
    if events.are_wanted:
        events.notify("shovel.worker.removed", _identity(status))


def way_of(status: ShovelStatus) -> dict[str, str]:
    """The source and destination of a running shovel, by RabbitMQ's names."""
    return {
        "src_uri": status.source,
        "src_protocol": PROTOCOL,
        "dest_protocol": PROTOCOL,
        "dest_uri": status.destination,
        **status.ends,
    }


def _identity(status: ShovelStatus) -> dict[str, str]:
    if status.vhost is None:
        return {"name": status.name}
    return {"name": status.name, "vhost": status.vhost}
