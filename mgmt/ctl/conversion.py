"""Commands that convert queues from one type to another in place."""

import re
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import Session, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, USAGE, failure, no_such

QUEUES = "Queues"


@command("convert_queue", "[--vhost <vhost>] <queue> --to quorum", "Makes a classic queue a quorum "
         "queue while clients use it", QUEUES, "to=")  # fmt: skip
def convert_queue(ctl: Session) -> None:
    """Convert one queue, and wait for the end."""
    name = ctl.argument(0)
    kind = _kind(ctl)
    ctl.banner(f"Converting queue '{name}' in vhost '{ctl.vhost}' to a {kind} queue ...")
    ctl.take_time()
    try:
        _convert(ctl, name, kind)
    except HttpError as error:
        raise no_such("Queue", name, ctl.vhost) if error.status == 404 else error from None


@command("convert_queues", "[--vhost <vhost>] --pattern <pattern> --to quorum", "Makes the classic "
         "queues whose names match quorum queues, one after the other", QUEUES, "to=", "pattern=",
         counts=(0, 0))  # fmt: skip
def convert_queues(ctl: Session) -> None:
    """Convert queues, and show how far that is. Those that cannot be converted are listed."""
    kind = _kind(ctl)
    try:
        pattern = re.compile(ctl.options.get("pattern", ""))
    except re.error as error:
        raise failure(f"the pattern is not a regular expression: {error}", USAGE) from None
    ctl.banner(f"Converting queues in vhost '{ctl.vhost}' to {kind} queues ...")
    ctl.take_time()
    queues: list[dict[str, Any]] = ctl.client.get("queues", ctl.vhost, columns="name,type")
    names = [one["name"] for one in queues if one["type"] != kind and pattern.search(one["name"])]
    if not names:
        ctl.say(f"no queue to convert: none of another type than {kind} has a name that matches")
    refused = 0
    for number, name in enumerate(names, 1):
        try:
            _convert(ctl, name, kind)
            outcome = "converted"
        except HttpError as error:
            refused += 1
            outcome = str(error)
        ctl.say(f"{number} of {len(names)}: {name}: {outcome}")
    if refused:
        raise failure(f"{refused} of {len(names)} queues were not converted", UNAVAILABLE)


def _kind(ctl: Session) -> str:
    kind = ctl.options.get("to", "")
    if kind != "quorum":
        raise failure("say '--to quorum': queues are converted to no other type", USAGE)
    return "quorum"


def _convert(ctl: Session, name: str, kind: str) -> None:
    asked = {"action": "convert", "to": kind}
    ctl.client.post("queues", ctl.vhost, name, "actions", body=asked)
