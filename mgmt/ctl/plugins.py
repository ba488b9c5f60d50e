"""The commands of leveret-plugins: which plugins there are, and which of them are enabled.

A running node enables and disables plugins itself, and writes the file `enabled_plugins`. If it
does not run, or with `--offline`, the command reads and writes the file, whose place it infers from
the variables of its environment as the node does; the change takes effect when the node starts.
The output is that of rabbitmq-plugins.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leveret.broker.config.plugins import (
    enabled_plugins_file,
    read_enabled_plugins,
    write_enabled_plugins,
)
from leveret.broker.plugins.known_plugins import PLUGINS, with_required
from leveret.broker.plugins.listed_plugins import Act, changed
from leveret.broker.plugins.own_plugins import BUILT_IN
from leveret.broker.plugins.plugin import facts_of
from leveret.mgmt.ctl import formatters
from leveret.mgmt.ctl.client import data_directory
from leveret.mgmt.ctl.command import NOTHING, CommandRun, command
from leveret.mgmt.ctl.errors import (
    DATA_ERROR,
    SOFTWARE,
    UNAVAILABLE,
    CtlError,
    NodeStateError,
    UsageError,
    bad_argument,
    failure,
)
from leveret.mgmt.ctl.similar_names import suggestion

MANAGEMENT, OBSERVE = "Plugin Management", "Monitoring, observability and health checks"
CONFIG_VARIABLE = "LEVERET_CONFIG"
WHERE = "[--offline] [--online]"
NAMES = "<plugin1> [ <plugin2>]"
ANY = ".*"


class Plugins(NamedTuple):
    """The plugins of a node. node: its name. is_running: whether it answered. file: its list of
    enabled plugins. enabled: what is listed. running: those that run. failures: why others do not,
    by name. known: the facts of each plugin, by name.
    """

    node: str
    is_running: bool
    file: Path
    enabled: tuple[str, ...]
    running: tuple[str, ...]
    failures: dict[str, str]
    known: dict[str, dict[str, Any]]

    @property
    def implied(self) -> set[str]:
        """Those that are enabled because others require them, or are a part of the node."""
        always = self.running if self.is_running else BUILT_IN
        return {*with_required(self.enabled), *always} - {*self.enabled}


def _plugins(ctl: CommandRun, *, needs_node: bool = False) -> Plugins:
    """Ask the node, or infer from the environment if it does not run.

    needs_node: without `--offline` the node has to run. Raises CtlError.
    """
    is_offline, is_online = ctl.options.get("offline"), ctl.options.get("online")
    if is_offline and is_online:
        raise bad_argument("Cannot set both online and offline")
    if is_offline:
        return _inferred(ctl)
    ctl.require_local()
    try:
        found = ctl.connection.get("node", "plugins")
    except CtlError as error:
        if error.code != UNAVAILABLE:
            raise
        if is_online or needs_node:
            raise NodeStateError(
                "this command requires the target node to be running.\n"
                f"{error.text.removeprefix('Error: ')}"
            ) from None
        return _inferred(ctl)
    return Plugins(
        found["node"], True, Path(found["enabled_plugins_file"]), tuple(found["enabled"]),
        tuple(found["running"]), found["failures"], {one["name"]: one for one in found["plugins"]},
    )  # fmt: skip


def _inferred(ctl: CommandRun) -> Plugins:
    config = os.environ.get(CONFIG_VARIABLE)
    file = enabled_plugins_file(
        Path(config) if config else None, Path(data_directory(ctl.options)), os.environ
    )
    problems: list[str] = []
    enabled = read_enabled_plugins(file, problems) or ()
    if problems:
        raise CtlError(f"Error:\n{problems[0]}", DATA_ERROR)
    known = {name: facts_of(name, one) for name, one in PLUGINS.items()}
    node = str(ctl.options.get("node") or os.environ.get("LEVERET_NODE_NAME") or "leveret")
    return Plugins(node, False, file, enabled, (), {}, known)


# list


@command("list", "[pattern] [--verbose] [--minimal] [--enabled] [--implicitly-enabled]",
         "Lists plugins and their state", MANAGEMENT,
         "verbose|v", "minimal|m", "enabled|E", "implicitly-enabled|e", "offline", "online",
         needs=NOTHING, counts=(0, 1))  # fmt: skip
def list_plugins(ctl: CommandRun) -> None:
    """List the plugins whose name matches a pattern."""
    is_minimal, is_verbose = ctl.options.get("minimal"), ctl.options.get("verbose")
    if is_minimal and is_verbose:
        raise bad_argument("Cannot set both verbose and minimal")
    pattern = ctl.argument(0, ANY)
    try:
        matches = re.compile(pattern).search
    except re.error as error:
        raise bad_argument(f"'{pattern}' is not a regular expression: {error}") from None
    plugins = _plugins(ctl)
    ctl.offline_banner(f'Listing plugins with pattern "{pattern}" ...')
    wanted = set(plugins.known) | set(plugins.enabled)
    if ctl.options.get("enabled"):
        wanted = set(plugins.enabled)
    elif ctl.options.get("implicitly_enabled"):
        wanted = {*plugins.enabled, *plugins.implied}
    names = sorted(name for name in wanted if matches(name))
    if ctl.formatter == "json":
        ctl.out(formatters.json_facts(_as_json(plugins, names, ctl.options)))
        return
    if not is_minimal and not ctl.is_quiet:
        _legend(ctl, plugins)
    width = max(map(len, names), default=0)
    for name in names:
        if is_minimal:
            ctl.out(name)
        elif is_verbose:
            _show(ctl, plugins, name)
        else:
            ctl.out(f"{_marks(plugins, name)} {name:<{width}} {_version(plugins, name)}".rstrip())


def _legend(ctl: CommandRun, plugins: Plugins) -> None:
    status = f"[failed to contact {plugins.node} - status not shown]"
    ctl.out(" Configured: E = explicitly enabled; e = implicitly enabled")
    ctl.out(f" | Status: {f'* = running on {plugins.node}' if plugins.is_running else status}")
    ctl.out(" |/")


def _marks(plugins: Plugins, name: str) -> str:
    enabled = "E" if name in plugins.enabled else "e" if name in plugins.implied else " "
    return f"[{enabled}{'*' if name in plugins.running else ' '}]"


def _version(plugins: Plugins, name: str) -> str:
    return str(plugins.known[name]["version"]) if name in plugins.known else "not installed"


def _show(ctl: CommandRun, plugins: Plugins, name: str) -> None:
    one = plugins.known.get(name, {})
    ctl.out(f"{_marks(plugins, name)} {name}")
    ctl.out(f"     Version:     \t{_version(plugins, name)}")
    if one.get("requires"):
        ctl.out(f"     Dependencies:\t[{','.join(one['requires'])}]")
    ctl.out(f"     Description: \t{one.get('description', '')}")
    if name in plugins.failures:
        ctl.out(f"     Failure:     \t{plugins.failures[name]}")


def _as_json(plugins: Plugins, names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    states = {"E": "enabled", "e": "implicit", " ": "not_enabled"}
    listed = [
        {
            "name": name, "version": _version(plugins, name),
            "enabled": states[_marks(plugins, name)[1]], "running": name in plugins.running,
            "running_version": _version(plugins, name) if name in plugins.running else None,
        }
        for name in names
    ]  # fmt: skip
    form = (
        "minimal" if options.get("minimal") else "verbose" if options.get("verbose") else "normal"
    )
    status = "running" if plugins.is_running else "node_down"
    return {"format": form, "plugins": listed, "status": status}


# enable, disable, set


@command("enable", f"{NAMES} | --all {WHERE}", "Enables one or more plugins", MANAGEMENT,
         "all", "offline", "online", needs=NOTHING, counts=(0, None))  # fmt: skip
def enable(ctl: CommandRun) -> None:
    """Enable plugins, and those that they require."""
    _check_names(ctl)
    plugins = _plugins(ctl)
    if ctl.options.get("all"):
        _announce(ctl, f"Enabling ALL plugins on node {plugins.node}")
    else:
        _announce(ctl, f"Enabling plugins on node {plugins.node}:")
    names = sorted(plugins.known) if ctl.options.get("all") else ctl.arguments
    missing = [name for name in names if name not in plugins.known]
    if missing:
        atoms = ", ".join(f":{name}" for name in missing)
        text = f"Error:\n{{:plugins_not_found, [{atoms}]}}\n{_advice(plugins, missing)}"
        raise CtlError(text, SOFTWARE)
    _switch(ctl, plugins, "enable", names)


@command("disable", f"{NAMES} | --all {WHERE}", "Disables one or more plugins", MANAGEMENT,
         "all", "offline", "online", needs=NOTHING, counts=(0, None))  # fmt: skip
def disable(ctl: CommandRun) -> None:
    """Disable plugins, and those that require them."""
    _check_names(ctl)
    plugins = _plugins(ctl)
    if ctl.options.get("all"):
        _announce(ctl, f"Disabling ALL plugins on node {plugins.node}")
        _switch(ctl, plugins, "disable", plugins.enabled)
    else:
        _announce(ctl, f"Disabling plugins on node {plugins.node}:")
        _switch(ctl, plugins, "disable", ctl.arguments)


@command("set", f"[{NAMES}] {WHERE}", "Enables one or more plugins, disables the rest", MANAGEMENT,
         "offline", "online", needs=NOTHING, counts=(0, None))  # fmt: skip
def set_plugins(ctl: CommandRun) -> None:
    """Enable plugins, and those that they require, and disable all others."""
    plugins = _plugins(ctl)
    _announce(ctl, f"Enabling plugins on node {plugins.node}:")
    missing = [name for name in ctl.arguments if name not in plugins.known]
    if missing:
        text = f"The following plugins were not found: {', '.join(missing)}"
        raise failure(f"{text}\n{_advice(plugins, missing)}", DATA_ERROR)
    _switch(ctl, plugins, "set", ctl.arguments)


def _check_names(ctl: CommandRun) -> None:
    if ctl.options.get("all") and ctl.arguments:
        raise bad_argument("Cannot set both --all and a list of plugins")
    if not ctl.options.get("all") and not ctl.arguments:
        raise UsageError("not enough arguments.")


def _announce(ctl: CommandRun, text: str) -> None:
    ctl.offline_banner("\n".join((text, *ctl.arguments)))


def _advice(plugins: Plugins, missing: Sequence[str]) -> str:
    near = (similar for name in missing for similar in [suggestion(name, plugins.known)] if similar)
    question = next((f"Did you mean '{name}'? " for name in near), "")
    where = f"the environment of node {plugins.node}" if plugins.is_running else sys.executable
    return f"{question}Install the package of a plugin into {where} before it is enabled."


def _switch(ctl: CommandRun, plugins: Plugins, act: Act, names: Sequence[str]) -> None:
    """Change the list of enabled plugins, and say what has changed."""
    if plugins.is_running:
        body = {"act": act, "names": list(names)}
        done: dict[str, Any] = ctl.connection.post("node", "plugins", body=body)
    else:
        done = _switch_in_file(plugins, act, names)
    if ctl.formatter == "json":
        shown = {"mode", "set", "started", "stopped", "failures"} | {f"{act}d"}
        facts = {name: value for name, value in done.items() if name in shown and value != {}}
        ctl.out(f"[\n{formatters.json_text(done['set'])}\n,{formatters.json_facts(facts)}\n]")
    else:
        for line in _changes(plugins, act, done):
            ctl.out(line)
    if done.get("failures"):
        raise failure("\n".join(done["failures"].values()), SOFTWARE)


def _switch_in_file(plugins: Plugins, act: Act, names: Sequence[str]) -> dict[str, Any]:
    listed = changed(plugins.enabled, act, names)
    if listed.after != listed.before:
        try:
            write_enabled_plugins(plugins.file, listed.after)
        except OSError as error:
            raise failure(f"cannot write {plugins.file}: {error.strerror}", SOFTWARE) from None
    return {
        "mode": "offline", "set": listed.configured, "enabled": listed.enabled,
        "disabled": listed.disabled,
    }  # fmt: skip


def _changes(plugins: Plugins, act: Act, done: dict[str, Any]) -> Iterator[str]:
    if done["set"]:
        yield "The following plugins have been configured:"
        yield from (f"  {name}" for name in done["set"])
    else:
        yield "All plugins have been disabled."
    yield f"Applying plugin configuration to {plugins.node}..."
    names = [] if act == "set" else done[f"{act}d"]
    if act != "set" and not names and not (done.get("started") or done.get("stopped")):
        yield "Plugin configuration unchanged."
        return
    if names:
        yield f"The following plugins have been {act}d:"
        yield from (f"  {name}" for name in names)
        yield ""
    if done["mode"] == "offline":
        yield f"set {len(done['set'])} plugins."
        if act != "set":
            yield "Offline change; changes will take effect at broker restart."
        return
    started, stopped = len(done["started"]), len(done["stopped"])
    counts = [f"stopped {stopped} plugins"] if stopped else []
    counts += [f"started {started} plugins"] if started or not stopped else []
    yield f"{' and '.join(counts)}."


# is_enabled, directories


@command("is_enabled", f"{NAMES} {WHERE}", "Health check that exits with a non-zero code if "
         "provided plugins are not enabled on target node", OBSERVE, "offline", "online",
         needs=NOTHING, counts=(1, None))  # fmt: skip
def is_enabled(ctl: CommandRun) -> None:
    """Check that plugins are enabled, on a node that they run."""
    names = ctl.arguments
    one = f"plugin{'s' if len(names) > 1 else ''} {', '.join(names)}"
    plugins = _plugins(ctl, needs_node=True)
    if plugins.is_running:
        ctl.offline_banner(f"Asking node {plugins.node} if {one} "
                           f"{'are' if len(names) > 1 else 'is'} enabled...")  # fmt: skip
        there, where = set(plugins.running), f" on node {plugins.node}"
    else:
        ctl.offline_banner(f"Inferring if {one} {'are' if len(names) > 1 else 'is'} enabled "
                           "from local environment...")  # fmt: skip
        there, where = {*plugins.enabled, *plugins.implied}, ""
    missing = [name for name in names if name not in there]
    if missing:
        which = (
            f"Plugins {', '.join(missing)} are" if len(missing) > 1 else f"Plugin {missing[0]} is"
        )
        text = (
            f"{which} not enabled{where}. Enabled plugins and dependencies: "
            f"{', '.join(sorted(there))}"
        )
        facts = {"message": text, "result": "error"}
        raise CtlError(f"Error:\n{text}", UNAVAILABLE, facts)
    which = f"Plugins {', '.join(names)} are" if len(names) > 1 else f"Plugin {names[0]} is"
    ctl.say(f"{which} enabled{where}", result="ok")


@command("directories", WHERE, "Displays plugin directory and enabled plugin file paths", OBSERVE,
         "offline", "online", needs=NOTHING, counts=(0, 0))  # fmt: skip
def directories(ctl: CommandRun) -> None:
    """Show where plugins are looked for, and the file that lists those that are enabled."""
    plugins = _plugins(ctl, needs_node=True)
    if plugins.is_running:
        ctl.offline_banner(f"Listing plugin directories used by node {plugins.node}")
    else:
        ctl.offline_banner("Listing plugin directories inferred from local environment...")
    packages = ":".join(path for path in sys.path if path.endswith("-packages"))
    facts = {
        "plugins_dir": packages, "plugins_expand_dir": packages,
        "enabled_plugins_file": str(plugins.file),
    }  # fmt: skip
    ctl.facts(
        facts,
        [
            f"Plugin archives directory: {packages}",
            f"Plugin expansion directory: {packages}",
            f"Enabled plugins file: {plugins.file}",
        ],
    )
