"""Limits of a running node, its logs, feature flags, and the environment of its process."""

import os
import re
from pathlib import Path

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import NODE, CommandRun, command
from leveret.mgmt.ctl.errors import USAGE, UsageError, bad_argument, failure
from leveret.mgmt.ctl.process import NODES, process_id
from leveret.mgmt.ctl.vhosts import check_columns

CONFIGURATION, FEATURES = "Configuration and Environment", "Feature flags"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none")
LEVELS_HERE = {"notice": "info", "alert": "critical", "emergency": "critical", "none": "critical"}
FLAG_COLUMNS = ("name", "state", "stability", "provided_by", "desc", "doc_url")
DEPRECATED_COLUMNS = ("name", "deprecation_phase", "provided_by", "desc", "doc_url")
_SIZE = re.compile(r"[0-9]+(?:[kmgtp](?:b|i|ib)?)?", re.IGNORECASE)
_FRACTION = re.compile(r"-?\d+(\.\d+)?")


# Limits


@command("set_vm_memory_high_watermark", "<fraction> | absolute <value>",
         "Sets the memory limit above which publishers are blocked", CONFIGURATION,
         counts=(1, None))  # fmt: skip
def set_vm_memory_high_watermark(ctl: CommandRun) -> None:
    """Set the memory limit."""
    kind, value = _watermark(ctl.arguments)
    ctl.require_local()
    what = f"{value} bytes" if kind == "absolute" else value
    ctl.banner(f"Setting memory threshold on {ctl.node} to {what} ...")
    _set_limit(ctl, "vm-memory-high-watermark", {kind: value})


def _set_limit(ctl: CommandRun, name: str, limit: dict[str, str]) -> None:
    """Set a limit. One that the node cannot read, as with an unknown unit, is a bad argument."""
    try:
        ctl.client.put("node", name, body=limit)
    except HttpError as error:
        if error.status == 400:
            raise bad_argument(error.reason) from None
        raise


def _watermark(words: list[str]) -> tuple[str, str]:
    if words[0] == "absolute":
        _require_two(words)
        if not _SIZE.fullmatch(words[1]):
            raise bad_argument(_not_a_size(words[1]))
        return "absolute", words[1]
    if len(words) > 1:
        raise UsageError("too many arguments.")
    if not _FRACTION.fullmatch(words[0]):
        raise bad_argument(
            f"'{words[0]}' is neither a fraction, such as 0.4, nor 'absolute' and a size"
        )
    if not 0 <= float(words[0]) <= 1:
        raise bad_argument("The threshold should be a fraction between 0.0 and 1.0")
    return "relative", words[0]


def _not_a_size(text: str) -> str:
    return f"'{text}' is not a size: a number of bytes, or one with a unit such as 512MB or 2GiB"


def _require_two(words: list[str]) -> None:
    if len(words) != 2:
        raise UsageError(f"{'not enough' if len(words) < 2 else 'too many'} arguments.")


@command("set_disk_free_limit", "<disk_limit> | mem_relative <fraction>",
         "Sets the free disk space below which publishers are blocked", CONFIGURATION,
         counts=(1, None))  # fmt: skip
def set_disk_free_limit(ctl: CommandRun) -> None:
    """Set the limit of free disk space."""
    kind, value = _disk_limit(ctl.arguments)
    ctl.require_local()
    what = f"{value} bytes" if kind == "absolute" else f"{value} times the total RAM"
    ctl.banner(f"Setting disk free limit on {ctl.node} to {what} ...")
    _set_limit(ctl, "disk-free-limit", {kind: value})


def _disk_limit(words: list[str]) -> tuple[str, str]:
    if words[0] == "mem_relative":
        _require_two(words)
        if not _FRACTION.fullmatch(words[1]) or float(words[1]) < 0:
            raise bad_argument(f"'{words[1]}' is not a fraction of the memory, such as 1.5")
        return "relative", words[1]
    if len(words) > 1:
        raise UsageError("too many arguments.")
    if not _SIZE.fullmatch(words[0]):
        raise bad_argument(_not_a_size(words[0]))
    return "absolute", words[0]


@command("set_log_level", "<log_level>", "Sets the log level of the running node", CONFIGURATION,
         "category=", needs=NODE)  # fmt: skip
def set_log_level(ctl: CommandRun) -> None:
    """Set the log level."""
    ctl.require_local()
    level = ctl.argument(0)
    if level not in LEVELS:
        raise failure(
            f"level {level} is not supported. Try one of debug, info, warning, error, critical, "
            "none"
        )
    ctl.banner(f'Setting log level to "{level}" ...')
    body = {"level": LEVELS_HERE.get(level, level), "category": ctl.options.get("category")}
    ctl.client.put("node", "log-level", body=body)


@command("rotate_logs", "", "Reopens the log files, after they were moved", NODES, needs=NODE)
def rotate_logs(ctl: CommandRun) -> None:
    """Reopen log files."""
    ctl.require_local()
    ctl.banner(f"Rotating logs for node {ctl.node} ...")
    ctl.client.post("node", "rotate-logs")


@command("set_cluster_name", "<name>", "Sets the cluster name", CONFIGURATION)
def set_cluster_name(ctl: CommandRun) -> None:
    """Set the cluster name."""
    ctl.banner(f"Setting cluster name to {ctl.argument(0)} ...")
    ctl.client.put("cluster-name", body={"name": ctl.argument(0)})


# Feature flags


@command("list_feature_flags", "[<column> ...]", "Lists feature flags", FEATURES,
         columns=FLAG_COLUMNS)  # fmt: skip
def list_feature_flags(ctl: CommandRun) -> None:
    """List feature flags."""
    columns = check_columns(ctl.arguments, FLAG_COLUMNS) or ["name", "state"]
    ctl.banner("Listing feature flags ...")
    found = ctl.client.get("feature-flags")
    ctl.rows([[flag.get(name, "") for name in columns] for flag in found], columns)


@command("enable_feature_flag", "[--experimental] <all | feature_flag>", "Enables a feature flag, "
         "or all of them; all are always enabled", FEATURES, "experimental")  # fmt: skip
def enable_feature_flag(ctl: CommandRun) -> None:
    """Accept any known flag: all are enabled."""
    name = ctl.argument(0)
    if not name:
        raise bad_argument("feature flag (or group) name cannot be an empty string")
    ctl.banner(
        "Enabling all feature flags ..." if name == "all" else f'Enabling feature flag "{name}" ...'
    )
    if name == "all":
        return
    try:
        ctl.client.put("feature-flags", name, "enable")
    except HttpError as error:
        if error.status not in (400, 404):
            raise
        raise failure(
            f"Feature flag '{name}' is not supported by node {ctl.node}", USAGE
        ) from None  # fmt: skip


@command("list_deprecated_features", "[--used] [<column> ...]", "Lists deprecated features: there "
         "are none", FEATURES, "used", columns=DEPRECATED_COLUMNS)  # fmt: skip
def list_deprecated_features(ctl: CommandRun) -> None:
    """Print an empty list: no feature is deprecated."""
    columns = check_columns(ctl.arguments, DEPRECATED_COLUMNS) or list(DEPRECATED_COLUMNS[:2])
    is_used = ctl.options.get("used")
    ctl.banner(f"Listing deprecated features {'in use ' if is_used else ''}...")
    found = ctl.client.get("deprecated-features", *(("used",) if is_used else ()))
    rows = [[one.get(name, "") for name in columns] for one in found]
    ctl.rows(rows, columns, empty_line=True)


@command("log_location", "[--all|-a]", "Shows where the node logs to", CONFIGURATION, "all|a",
         needs=NODE)  # fmt: skip
def log_location(ctl: CommandRun) -> None:
    """Show the log files of the node."""
    ctl.banner(f"Log file location(s) on node {ctl.node} ...")
    paths = ctl.client.get("node", "status")["log_files"]
    shown = paths if ctl.options.get("all") else paths[:1]
    ctl.facts({"result": "ok", "node_name": ctl.node, "paths": shown}, shown)


@command("os_env", "", "Lists the environment variables that configure the node", CONFIGURATION,
         needs=NODE)  # fmt: skip
def os_env(ctl: CommandRun) -> None:
    """Show environment variables that configure the node."""
    ctl.banner(f"Listing RabbitMQ-specific environment variables defined on node {ctl.node}...")
    found = _environment_of(process_id(ctl))
    lines = [f"{name}={value}" for name, value in found.items()] or [""]
    ctl.facts({"result": "ok", "node": ctl.node, "variables": found}, lines)


def _environment_of(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        raise failure(f"the environment of process {pid} cannot be read: {error}") from None
    pairs = (part.decode(errors="replace").partition("=") for part in raw.split(b"\0") if part)
    found = {name: value for name, _, value in pairs if name.startswith(("LEVERET_", "RABBIT"))}
    return {name: "***" if "PASS" in name else found[name] for name in sorted(found)}


@command("command_line_arguments", "", "Shows the node's command line", CONFIGURATION,
         needs=NODE)  # fmt: skip
def command_line_arguments(ctl: CommandRun) -> None:
    """Show the command line of the node's process."""
    ctl.banner(f"Command line arguments of node {ctl.node} ...")
    path = Path(f"/proc/{process_id(ctl)}/cmdline")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise failure(f"{path} cannot be read: {error.strerror}") from None
    words = [os.fsdecode(part) for part in raw.split(b"\0") if part]
    ctl.value(words, " ".join(words))
