"""Virtual hosts, their metadata and tracing, and limits of vhosts and users."""

import json
from collections.abc import Callable
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import (
    DATA_ERROR,
    SOFTWARE,
    USAGE,
    CtlError,
    UsageError,
    bad_argument,
    failure,
    no_such_vhost,
)
from leveret.mgmt.ctl.formatters import json_facts, json_text
from leveret.mgmt.ctl.similar_names import did_you_mean
from leveret.mgmt.ctl.users import find_user, require_vhost

VHOSTS, USERS, ACCESS = "Virtual hosts", "Users", "Access Control"
VHOST_COLUMNS = ("name", "description", "tags", "default_queue_type", "tracing", "cluster_state")
VHOST_LIMITS = ("max-queues", "max-connections")
USER_LIMITS = ("max-connections", "max-channels")
QUEUE_TYPES = ("quorum", "stream", "classic")
METADATA = ("description|d=", "tags=", "default-queue-type=")
UNROUTABLE_HANDLINGS = ("accept", "refuse")


def _metadata(ctl: CommandRun) -> dict[str, Any]:
    keys = ("description", "tags", "default_queue_type", "unroutable_publishes")
    return {key: ctl.options[key] for key in keys if ctl.options.get(key) is not None}


def _check_unroutable(metadata: dict[str, Any]) -> None:
    """Raise CtlError for a value that is not known."""
    value = metadata.get("unroutable_publishes", UNROUTABLE_HANDLINGS[0])
    if value not in UNROUTABLE_HANDLINGS:
        raise bad_argument(
            f"Unroutable publishes must be one of: {', '.join(UNROUTABLE_HANDLINGS)}. Provided: "
            f"{value}"
        )


@command("add_vhost", '<vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" '
         "--default-queue-type <quorum|classic|stream>]", "Creates a virtual host", VHOSTS,
         *METADATA, counts=(1, 1))  # fmt: skip
def add_vhost(ctl: CommandRun) -> None:
    """Add a virtual host; an existing one is not changed."""
    name, body = ctl.argument(0), _metadata(ctl)
    if not name:
        raise failure("the name of a virtual host cannot be empty", DATA_ERROR)
    if body.get("default_queue_type", "classic") not in QUEUE_TYPES:
        raise failure(
            f"Unsupported default queue type '{body['default_queue_type']}': it is one of "
            f"{', '.join(QUEUE_TYPES)}", USAGE,
        )  # fmt: skip
    ctl.banner(f'Adding vhost "{name}" ...')
    if not any(vhost["name"] == name for vhost in ctl.client.get("vhosts")):
        ctl.client.put("vhosts", name, body=body)


@command("delete_vhost", "<vhost>", "Deletes a virtual host with everything in it", VHOSTS)
def delete_vhost(ctl: CommandRun) -> None:
    """Delete a virtual host with everything in it."""
    name = ctl.argument(0)
    ctl.banner(f'Deleting vhost "{name}" ...')
    ctl.take_time()
    try:
        ctl.client.delete("vhosts", name)
    except HttpError as error:
        raise (no_such_vhost(name) if error.status == 404 else error) from None


@command("list_vhosts", "[--no-table-headers] [<column> ...]", "Lists virtual hosts", ACCESS,
         columns=VHOST_COLUMNS)  # fmt: skip
def list_vhosts(ctl: CommandRun) -> None:
    """List all virtual hosts."""
    columns = check_columns(ctl.arguments, VHOST_COLUMNS) or ["name"]
    ctl.banner("Listing vhosts ...")
    found = ctl.client.get("vhosts")
    ctl.rows([[vhost.get(name, "") for name in columns] for vhost in found], columns)


def check_columns(wanted: list[str], known: tuple[str, ...]) -> list[str]:
    """Return the requested columns without duplicates; commas are allowed. Raises UsageError."""
    columns = [name for word in wanted for name in word.split(",") if name]
    unknown = sorted({name for name in columns if name not in known})
    if unknown:
        questions = filter(None, (did_you_mean(name, known) for name in unknown))
        raise UsageError(
            "\n".join([f"Info key(s) {','.join(unknown)} are not supported", *questions])
        )
    return list(dict.fromkeys(columns))


@command("set_vhost_tags", "<vhost> <tag> [...]", "Sets virtual host tags", VHOSTS,
         counts=(1, None))  # fmt: skip
def set_vhost_tags(ctl: CommandRun) -> None:
    """Set the tags of a virtual host."""
    name, tags = ctl.argument(0), ctl.arguments[1:]
    ctl.banner(f'Setting tags for virtual host "{name}" to [{", ".join(tags)}] ...')
    _require_named(ctl, name)
    ctl.client.put("vhosts", name, body={"tags": tags})


def _require_named(ctl: CommandRun, name: str) -> None:
    try:
        ctl.client.get("vhosts", name)
    except HttpError as error:
        if error.status != 404:
            raise
        raise failure(f'Virtual host "{name}" does not exist', DATA_ERROR) from None


@command("update_vhost_metadata", '<vhost> [--description <description>] [--tags "<tag1>,<tag2>,'
         '<...>"] [--default-queue-type <quorum|classic|stream>] '
         "[--unroutable-publishes <accept|refuse>]", "Changes a virtual host's description, tags, "
         "default queue type, and what is done with publishes that may be unroutable", VHOSTS,
         *METADATA, "unroutable-publishes=",
         counts=(1, 1))  # fmt: skip
def update_vhost_metadata(ctl: CommandRun) -> None:
    """Change some metadata of a virtual host; the others stay."""
    name, body = ctl.argument(0), _metadata(ctl)
    if not body:
        raise UsageError("not enough arguments.")
    queue_type = body.get("default_queue_type", "classic")
    if queue_type not in QUEUE_TYPES:
        raise bad_argument(
            f"Default queue type must be one of: {', '.join(QUEUE_TYPES)}. Provided: {queue_type}"
        )
    _check_unroutable(body)
    ctl.banner(f'Updating metadata of vhost "{name}" ...')
    require_vhost(ctl, name)
    before = ctl.client.get("vhosts", name)
    kept = {"description": before["description"], "tags": ",".join(before["tags"])}
    ctl.client.put("vhosts", name, body={**kept, **body})


@command("restart_vhost", "[--vhost <vhost>]", "Restarts a failed virtual host", VHOSTS)
def restart_vhost(ctl: CommandRun) -> None:
    """Succeed: a virtual host is running as long as its node."""
    where = f"vhost '{ctl.vhost}' on node '{ctl.node}'"
    ctl.banner(f"Trying to restart {where} ...")
    try:
        ctl.client.get("vhosts", ctl.vhost)
    except HttpError as error:
        if error.status != 404:
            raise
        raise failure(f"Failed to start {where}: there is no such vhost", SOFTWARE) from None
    ctl.say(f"V{where[1:].replace(' on', ' is already running on')}")


def _trace(ctl: CommandRun, *, is_on: bool) -> None:
    ctl.banner(f'{"Starting" if is_on else "Stopping"} tracing for vhost "{ctl.vhost}" ...')
    require_vhost(ctl, ctl.vhost)
    row = ctl.client.get("vhosts", ctl.vhost)
    kept = {"description": row["description"], "tags": ",".join(row["tags"])}
    ctl.client.put("vhosts", ctl.vhost, body={**kept, "tracing": is_on})
    text = f"Trace {'enabled' if is_on else 'disabled'} for vhost {ctl.vhost}"
    ctl.value(text, text)


@command("trace_on", "[--vhost <vhost>]", "Switches the firehose of a virtual host on",
         VHOSTS, counts=(0, None))  # fmt: skip
def trace_on(ctl: CommandRun) -> None:
    """Switch the firehose of a virtual host on."""
    _trace(ctl, is_on=True)


@command("trace_off", "[--vhost <vhost>]", "Switches the firehose of a virtual host off", VHOSTS,
         counts=(0, None))  # fmt: skip
def trace_off(ctl: CommandRun) -> None:
    """Switch the firehose of a virtual host off."""
    _trace(ctl, is_on=False)


# Limits


def parse_json(text: str) -> Any:
    """Parse a JSON argument. Raises CtlError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise failure(f"'{text}' is not JSON: {error}") from None


def _limits(text: str, known: tuple[str, ...], what: str) -> dict[str, int]:
    """Parse and check limits. Raises CtlError."""
    limits = parse_json(text)
    if not isinstance(limits, dict):
        raise failure(f'limits must be a JSON object such as {{"{known[0]}": 5}}, not {text}')
    problems = [f"Unrecognised terms {name} in {what}" for name in limits if name not in known]
    problems += [
        f"{name} should be a number, actually was {json_text(value)}"
        for name, value in limits.items()
        if type(value) is not int
    ]
    if problems:
        raise failure("Validation failed\n\n" + "\n".join(problems) + "\n")
    return limits


@command("set_vhost_limits", "[--vhost <vhost>] <definition>", "Sets virtual host limits", VHOSTS)
def set_vhost_limits(ctl: CommandRun) -> None:
    """Set limits of a virtual host."""
    definition = ctl.argument(0)
    limits = parse_vhost_limits(definition)
    ctl.banner(f'Setting vhost limits to "{definition}" for vhost "{ctl.vhost}" ...')
    replace_vhost_limits(ctl, limits)


def parse_vhost_limits(text: str) -> dict[str, int]:
    """Parse and check limits of a virtual host. Raises CtlError."""
    return _limits(text, VHOST_LIMITS, "limits")


def replace_vhost_limits(ctl: CommandRun, limits: dict[str, int]) -> None:
    """Replace the limits of a virtual host."""
    require_vhost(ctl, ctl.vhost)
    _delete_limits(ctl, "vhost-limits", ctl.vhost, lambda name: name not in limits)
    for name, value in limits.items():
        ctl.client.put("vhost-limits", ctl.vhost, name, body={"value": value})


def _delete_limits(ctl: CommandRun, route: str, of: str, is_meant: Callable[[str], bool]) -> int:
    """Delete limits of a virtual host or a user, and return their number."""
    names = [name for one in ctl.client.get(route, of) for name in one["value"]]
    for name in names:
        if is_meant(name):
            ctl.client.delete(route, of, name)
    return len(names)


@command("clear_vhost_limits", "[--vhost <vhost>]", "Clears virtual host limits", VHOSTS)
def clear_vhost_limits(ctl: CommandRun) -> None:
    """Remove the limits of a virtual host."""
    ctl.banner(f'Clearing vhost "{ctl.vhost}" limits ...')
    clear_all_vhost_limits(ctl)


def clear_all_vhost_limits(ctl: CommandRun) -> None:
    """Remove all limits of a virtual host. Raises CtlError if there are none."""
    try:
        count = _delete_limits(ctl, "vhost-limits", ctl.vhost, lambda _: True)
    except HttpError as error:
        if error.status != 404:
            raise
        count = 0
    if not count:
        raise failure(f"vhost '{ctl.vhost}' has no limits, or does not exist")


def clear_if_there(ctl: CommandRun, missing: CtlError, *path: str) -> None:
    """Delete a parameter of any kind. missing: raised if it does not exist."""
    try:
        ctl.client.delete(*path)
    except HttpError as error:
        raise (missing if error.status == 404 else error) from None


@command("list_vhost_limits", "[--vhost <vhost>] [--global] [--no-table-headers]",
         "Displays configured virtual host limits", VHOSTS, "global")  # fmt: skip
def list_vhost_limits(ctl: CommandRun) -> None:
    """List limits of one virtual host, or of all."""
    if ctl.options.get("global"):
        ctl.banner("Listing limits for all vhosts ...")
        found = [one for one in ctl.client.get("vhost-limits") if one["value"]]
        rows = [(one["vhost"], json_facts(one["value"])) for one in found]
        ctl.rows(rows, ("vhost", "limits"), empty_line=True)
        return
    ctl.banner(f'Listing limits for vhost "{ctl.vhost}" ...')
    require_vhost(ctl, ctl.vhost)
    limits = [one["value"] for one in ctl.client.get("vhost-limits", ctl.vhost) if one["value"]]
    if not limits:
        ctl.rows([], (), empty_line=True)
        return
    text = json_facts(limits[0])
    ctl.value(text, text)


@command("set_user_limits", "<username> <definition>", "Sets user limits", USERS)
def set_user_limits(ctl: CommandRun) -> None:
    """Set limits of a user, after checking all of them."""
    name, definition = ctl.arguments
    limits = _limits(definition, USER_LIMITS, "user-limits")
    ctl.banner(f'Setting user limits to "{definition}" for user "{name}" ...')
    find_user(ctl, name)
    for key, value in limits.items():
        ctl.client.put("user-limits", name, key, body={"value": value})


@command("clear_user_limits", "<username> <limit_type> | all", "Clears limits of a user", USERS)
def clear_user_limits(ctl: CommandRun) -> None:
    """Remove a limit of a user, or all."""
    name, limit = ctl.arguments
    shown = "all limits" if limit == "all" else f'"{limit}" limit'
    ctl.banner(f'Clearing {shown} for user "{name}" ...')
    find_user(ctl, name)
    _delete_limits(ctl, "user-limits", name, lambda key: limit in ("all", key))


@command("list_user_limits", "[--user <username>] [--global]", "Displays configured user limits",
         USERS, "user=", "global")  # fmt: skip
def list_user_limits(ctl: CommandRun) -> None:
    """List limits of one user, or of all."""
    if ctl.options.get("global"):
        ctl.banner("Listing limits for all users ...")
        found = [one for one in ctl.client.get("user-limits") if one["value"]]
        rows = [(one["user"], json_facts(one["value"])) for one in found]
        ctl.rows(rows, ("user", "limits"), empty_line=True)
        return
    user = ctl.options.get("user", "guest")
    ctl.banner(f'Listing limits for user "{user}" ...')
    find_user(ctl, user)
    limits = [one["value"] for one in ctl.client.get("user-limits", user)]
    ctl.say(json_facts(limits[0] if limits else {}))
