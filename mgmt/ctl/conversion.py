"""Commands that convert queues from one type to another in place."""

import re
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, USAGE, failure, no_such

QUEUES = "Queues"
KINDS = ("classic", "quorum")


@command("convert_queue", "[--vhost <vhost>] <queue> --to quorum|classic", "Makes a classic queue "
         "a quorum queue, or the other way round, while clients use it", QUEUES,
         "to=")  # fmt: skip
def convert_queue(ctl: CommandRun) -> None:
    """Convert one queue, and wait for the end."""
    name = ctl.argument(0)
    kind = _kind(ctl)
    ctl.banner(f"Converting queue '{name}' in vhost '{ctl.vhost}' to a {kind} queue ...")
    ctl.take_time()
    try:
        _convert(ctl, ctl.vhost, name, kind)
    except HttpError as error:
        raise no_such("Queue", name, ctl.vhost) if error.status == 404 else error from None


@command("convert_queues", "[--vhost <vhost>] [--pattern <pattern>] --to quorum|classic", "Makes "
         "queues, all or those whose names match, queues of this type, one after the other", QUEUES,
         "to=", "pattern=", counts=(0, 0))  # fmt: skip
def convert_queues(ctl: CommandRun) -> None:
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
    _convert_all(ctl, [(ctl.vhost, name, kind) for name in names])


def convert_as_defined(ctl: CommandRun, queues: list[dict[str, Any]]) -> None:
    """Convert the queues that have another type than their definitions name."""
    wanted: dict[tuple[str, str], str] = {}
    for one in queues:
        kind = one.get("arguments", {}).get("x-queue-type")
        if kind in KINDS:
            wanted[one.get("vhost", ctl.vhost), one["name"]] = kind
    asked = []
    for vhost in dict.fromkeys(vhost for vhost, _ in wanted):
        for one in ctl.client.get("queues", vhost, columns="name,type"):
            kind = wanted.get((vhost, one["name"]), one["type"])
            if kind != one["type"] and one["type"] in KINDS:
                asked.append((vhost, one["name"], kind))
    if not asked:
        ctl.say("no queue to convert: all have the types that their definitions name")
    _convert_all(ctl, asked)


def _convert_all(ctl: CommandRun, asked: list[tuple[str, str, str]]) -> None:
    """Convert queues one after the other. asked: the vhost, name and new type of each."""
    refused = 0
    for number, (vhost, name, kind) in enumerate(asked, 1):
        try:
            _convert(ctl, vhost, name, kind)
            outcome = "converted"
        except HttpError as error:
            refused += 1
            outcome = str(error)
        ctl.say(f"{number} of {len(asked)}: {name}: {outcome}")
    if refused:
        raise failure(f"{refused} of {len(asked)} queues were not converted", UNAVAILABLE)


def _kind(ctl: CommandRun) -> str:
    kind: str = ctl.options.get("to", "")
    if kind not in KINDS:
        raise failure("say '--to quorum' or '--to classic'", USAGE)
    return kind


def _convert(ctl: CommandRun, vhost: str, name: str, kind: str) -> None:
    asked = {"action": "convert", "to": kind}
    ctl.client.post("queues", vhost, name, "actions", body=asked)
