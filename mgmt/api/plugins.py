"""The plugins of a node: routes of the control socket, for `leveret-plugins`."""

import asyncio
from typing import Any, get_args

from leveret.broker.config.plugins import read_enabled_plugins, write_enabled_plugins
from leveret.broker.plugins.known_plugins import PLUGINS, with_required
from leveret.broker.plugins.listed_plugins import Act, changed
from leveret.broker.plugins.plugin import facts_of
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, conflict
from leveret.mgmt.api.routes import route
from leveret.mgmt.running_node import RunningNode
from leveret.mgmt.views.plugins import running_plugins

ACTS = get_args(Act)


def _listed(node: RunningNode) -> tuple[str, ...]:
    """What the file of enabled plugins lists; without the file, what is enabled in this run.

    Raises 409 if the file cannot be read.
    """
    problems: list[str] = []
    file = node.config.plugins_file
    names = None if file is None else read_enabled_plugins(file, problems)
    if problems:
        raise conflict(problems[0])
    return _enabled(node) if names is None else names


def _enabled(node: RunningNode) -> tuple[str, ...]:
    """The plugins that are enabled in this run, or for the next start of the broker."""
    if node.facade is not None:
        return node.facade.plugins.enabled
    return node.enabled_plugins or node.config.plugins or ()


@route("GET", "/node/plugins", control_only=True, works_stopped=True)
async def show_plugins(call: Call) -> Any:
    """All plugins, those that are enabled, and those that run."""
    node = call.node
    enabled = sorted({*_listed(node), *_enabled(node)})
    return {
        "node": node.name, "enabled_plugins_file": str(node.config.plugins_file or ""),
        "enabled": enabled, "running": running_plugins(node),
        "failures": {} if node.facade is None else node.facade.plugins.failures,
        "plugins": [facts_of(name, one) for name, one in sorted(PLUGINS.items())],
    }  # fmt: skip


@route("POST", "/node/plugins", control_only=True, works_stopped=True)
async def change_plugins(call: Call) -> Any:
    """Enable plugins, disable some, or set all that are enabled; at once, and in the file."""
    node, body = call.node, await call.body("act", "names")
    act, names = body["act"], body["names"]
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if act not in ACTS or not is_list:
        raise bad_request(f"act must be one of {', '.join(ACTS)}, and names a list of names")
    missing = [name for name in names if act != "disable" and name not in PLUGINS]
    if missing:
        raise bad_request(f"there is no plugin {', '.join(missing)}")
    listed = changed(_listed(node), act, names)
    file = node.config.plugins_file
    if file is not None and listed.after != listed.before:
        try:
            await asyncio.to_thread(write_enabled_plugins, file, listed.after)
        except OSError as error:
            raise conflict(f"cannot write {file}: {error.strerror}") from None
    await call.note("plugins.changed", "node", node.name, f"Plugins: {act} {', '.join(names)}")
    enabled = changed(_enabled(node), act, names).after
    node.enabled_plugins = enabled
    answer = {
        "mode": "offline", "set": listed.configured, "enabled": listed.enabled,
        "disabled": listed.disabled,
    }  # fmt: skip
    if node.facade is None:
        return answer
    started, stopped = await node.facade.plugins.change(enabled)
    failures = node.facade.plugins.failures
    # Others may have failed since the node started.
    asked = () if act == "disable" else with_required(names)
    return {
        **answer, "mode": "online", "started": started, "stopped": stopped,
        "failures": {name: failures[name] for name in asked if name in failures},
    }  # fmt: skip
