"""The status of a shovel for operators: its state, the reason, and since when.

The states are RabbitMQ's (`rabbit_shovel_status`): a shovel is `starting` until it moves messages,
and `terminated`, with a reason, while it waits to be started again. A running one is `running`, or
`blocked` or in `flow` while the destination accepts no messages.
"""

import msgspec

STARTING, TERMINATED = "starting", "terminated"
WAITING = "waiting"
"""The state of a shovel whose threshold is not passed; RabbitMQ has no such shovels."""
RUNNING, FLOW, BLOCKED = "running", "flow", "blocked"


class ShovelProgress(msgspec.Struct, frozen=True):
    """The progress of a shovel, in messages. remaining, remaining_unacked: still to be moved, and
    still to be published; None for a shovel without an end. pending: waiting for the destination.
    """

    forwarded: int = 0
    pending: int = 0
    remaining: int | None = None
    remaining_unacked: int | None = None


class ShovelStatus(msgspec.Struct, frozen=True):
    """The status of one shovel.

    vhost: None for a static shovel. reason: why it is terminated, or why a running one moves no
    messages. since_s: seconds since the epoch, of the last change. source, destination: the URIs in
    use, without user and password; empty unless it runs. ends: queues, exchanges and keys, by
    RabbitMQ's names for them.
    """

    name: str
    vhost: str | None
    state: str
    since_s: float
    reason: str = ""
    source: str = ""
    destination: str = ""
    ends: dict[str, str] = {}
    progress: ShovelProgress = ShovelProgress()
