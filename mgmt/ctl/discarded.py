"""Declarations and messages discarded after a partition: listing, and publishing them again."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from leveret.mgmt.ctl.command import NODE, CommandRun, command
from leveret.mgmt.ctl.errors import DATA_ERROR, failure
from leveret.mgmt.ctl.process import CLUSTER

FILES = ("name", "node", "at", "takes_from", "bytes", "is_published")
CONTENT = ("what", "vhost", "name", "messages")


@command("list_discarded", "[<file>]", "Lists the files of declarations and messages discarded "
         "after partitions, or the content of one", CLUSTER, needs=NODE)  # fmt: skip
def list_discarded(ctl: CommandRun) -> None:
    """List the files, or the declarations and queues in one."""
    ctl.require_local()
    if not ctl.arguments:
        ctl.banner(f"Listing files of node {ctl.node} with discarded messages ...")
        found = ctl.client.get("node", "discarded")
        ctl.rows([[_cell(one, name) for name in FILES] for one in found], FILES)
        return
    ctl.banner(f"Listing the content of {ctl.argument(0)} ...")
    ctl.take_time()
    content = ctl.client.get("node", "discarded", ctl.argument(0))
    if ctl.formatter == "json":
        ctl.facts(content, ())
        return
    ctl.rows(_content_rows(content), CONTENT)
    if not content["is_complete"]:
        ctl.out("The end of this file is missing: the node was killed while it wrote it.")


def _cell(view: dict[str, Any], name: str) -> Any:
    if name == "at":
        return datetime.fromtimestamp(view["at"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return ", ".join(view[name]) if name == "takes_from" else view[name]


def _content_rows(content: dict[str, Any]) -> Iterator[list[Any]]:
    for one in content["changes"]:
        yield ["changed: " + one["declaration"], one.get("vhost", ""), _name(one), ""]
    for one in content["declared"]:
        yield ["discarded: " + one["declaration"], one.get("vhost", ""), _name(one), ""]
    for one in content["queues"]:
        yield ["messages of a queue", one["vhost"], one["name"], one["messages"]]
    for one in content["exchanges"]:
        yield ["delayed messages of an exchange", one["vhost"], one["name"], one["messages"]]


def _name(view: dict[str, Any]) -> str:
    """The key of a declaration among those of its kind."""
    if "destination" in view:
        return f"{view['source']} -> {view['destination']} ({view['routing_key']})"
    for name in ("name", "user"):
        if isinstance(view.get(name), str):
            return str(view[name])
    for name in ("policy", "permission"):
        if isinstance(view.get(name), dict):
            return str(view[name].get("name") or view[name].get("user"))
    return ""


@command("publish_discarded", "<file> [--declare]", "Publishes the messages again that the node "
         "has discarded after a partition", CLUSTER, "declare")  # fmt: skip
def publish_discarded(ctl: CommandRun) -> None:
    """Publish the messages of a file to their queues."""
    ctl.require_local()
    file = ctl.argument(0)
    ctl.banner(f"Publishing the messages of {file} ...")
    ctl.take_time()
    done = ctl.client.post(
        "node", "publish-discarded",
        body={"file": file, "declare": bool(ctl.options.get("declare"))},
    )  # fmt: skip
    ctl.say(f"Published {done['published']} messages, declared {done['declared']} objects", **done)
    missing = ", ".join(
        f"{kind} '{one['name']}' in vhost '{one['vhost']}'"
        for kind, places in (("queue", "missing"), ("exchange", "missing_exchanges"))
        for one in done[places]
    )
    if done["skipped"]:
        raise failure(
            f"{done['skipped']} messages were not published, since there is no {missing}. "
            "Use --declare to declare the missing objects",
            DATA_ERROR,
        )
    if done["refused"]:
        raise failure(f"{done['refused']} messages were refused by their queues", DATA_ERROR)
