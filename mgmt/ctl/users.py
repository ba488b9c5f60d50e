"""Users and their permissions."""

import base64
import binascii
import getpass
import hashlib
import os
import sys
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import NOTHING, CommandRun, command
from leveret.mgmt.ctl.errors import (
    DATA_ERROR,
    NO_USER,
    SOFTWARE,
    UNAVAILABLE,
    CtlError,
    bad_argument,
    failure,
    no_such_vhost,
)

USERS, ACCESS = "Users", "Access Control"
DONE = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'leveretctl help set_permissions' to learn more."
)


def find_user(ctl: CommandRun, name: str, code: int = UNAVAILABLE) -> dict[str, Any]:
    """Get a user. Raises CtlError with rabbitmqctl's exit code for the command."""
    try:
        found: dict[str, Any] = ctl.client.get("users", name)
    except HttpError as error:
        if error.status == 404:
            raise failure(f'User "{name}" does not exist', code) from None
        raise
    return found


def require_vhost(ctl: CommandRun, name: str, *, code: int = 0) -> None:
    """Raise CtlError unless the virtual host exists. code: a special exit code of the command."""
    try:
        ctl.client.get("vhosts", name)
    except HttpError as error:
        if error.status != 404:
            raise
        if code:
            raise failure(f"Virtual host {name} does not exist", code) from None
        raise no_such_vhost(name) from None


def _password(ctl: CommandRun, place: int, prompt: str = "Password: ") -> str:
    """Return the password, from arguments, terminal or pipe. Raises CtlError if empty."""
    if place < len(ctl.arguments):
        return ctl.arguments[place]
    if sys.stdin.isatty():
        return getpass.getpass(prompt)
    if not ctl.is_quiet:
        ctl.print_line(prompt)
    line = sys.stdin.readline()
    if not line:
        raise failure("Password is not provided via argument or stdin", DATA_ERROR)
    return line.rstrip("\n")


@command("add_user", "<username> [<password>] [<password_hash> --pre-hashed-password]",
         "Creates a user without permissions", USERS, "pre-hashed-password",
         counts=(1, 2))  # fmt: skip
def add_user(ctl: CommandRun) -> None:
    """Add a user without tags."""
    name, is_hashed = ctl.argument(0), bool(ctl.options.get("pre_hashed_password"))
    if not name and len(ctl.arguments) > 1:
        raise bad_argument("user cannot be an empty string")
    if is_hashed and len(ctl.arguments) > 1:
        _check_hash(ctl.argument(1))
    ctl.banner(f'Adding user "{name}" ...')
    password = _password(ctl, 1, "Hashed and salted password: " if is_hashed else "Password: ")
    if is_hashed:
        _check_hash(password)
    if any(user["name"] == name for user in ctl.client.get("users")):
        facts = {"result": "error", "node": ctl.node, "message": f"User {name} already exists"}
        code = UNAVAILABLE if ctl.formatter == "json" else SOFTWARE
        raise CtlError(f'Error:\nUser "{name}" already exists', code, facts)
    key = "password_hash" if is_hashed or not password else "password"
    ctl.client.put("users", name, body={key: password, "tags": ""})
    if ctl.formatter == "json":
        ctl.say(DONE, status="ok", node=ctl.node)
    elif not ctl.is_quiet:
        ctl.out(DONE)


def _check_hash(text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise bad_argument("Could not Base64 decode provided password hash value") from None


@command("delete_user", "<username>", "Removes a user", USERS)
def delete_user(ctl: CommandRun) -> None:
    """Delete a user."""
    name = ctl.argument(0)
    ctl.banner(f'Deleting user "{name}" ...')
    try:
        ctl.client.delete("users", name)
    except HttpError as error:
        if error.status != 404:
            raise
        facts = {"result": "error", "node": ctl.node, "message": f"User {name} does not exists"}
        code = UNAVAILABLE if ctl.formatter == "json" else NO_USER
        raise CtlError(f'Error:\nUser "{name}" does not exist', code, facts) from None


@command("change_password", "<username> <password>", "Changes the user password", USERS,
         counts=(1, 2))  # fmt: skip
def change_password(ctl: CommandRun) -> None:
    """Set a password; an empty one removes it, like clear_password."""
    name = ctl.argument(0)
    ctl.banner(f'Changing password for user "{name}" ...')
    password = _password(ctl, 1)
    user = find_user(ctl, name, NO_USER)
    key = "password" if password else "password_hash"
    ctl.client.put("users", name, body={key: password, "tags": user["tags"]})


@command("clear_password", "<username>", "Removes a user's password, which disables logins "
         "with a password", USERS)  # fmt: skip
def clear_password(ctl: CommandRun) -> None:
    """Remove a user's password."""
    name = ctl.argument(0)
    ctl.banner(f'Clearing password for user "{name}" ...')
    user = find_user(ctl, name)
    ctl.client.put("users", name, body={"password_hash": "", "tags": user["tags"]})


@command("authenticate_user", "<username> <password>", "Checks a user's password; fails if it "
         "is wrong", USERS, counts=(1, 2))  # fmt: skip
def authenticate_user(ctl: CommandRun) -> None:
    """Check a password."""
    ctl.require_local()
    name = ctl.argument(0)
    ctl.banner(f'Authenticating user "{name}" ...')
    body = {"username": name, "password": _password(ctl, 1)}
    try:
        ctl.client.post("node", "check-password", body=body)
    except HttpError as error:
        if error.status != 401:
            raise
        raise failure(
            f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials",
            DATA_ERROR,
        ) from None
    ctl.say("Success")


@command("set_user_tags", "<username> <tag> [...]", "Sets user tags", USERS, counts=(1, None))
def set_user_tags(ctl: CommandRun) -> None:
    """Replace the tags of a user."""
    name, tags = ctl.argument(0), ctl.arguments[1:]
    ctl.banner(f'Setting tags for user "{name}" to [{", ".join(tags)}] ...')
    user = find_user(ctl, name, NO_USER)
    body = {key: user[key] for key in ("password_hash", "hashing_algorithm")}
    ctl.client.put("users", name, body={**body, "tags": tags})


@command("list_users", "[--no-table-headers]", "Lists users and their tags", USERS)
def list_users(ctl: CommandRun) -> None:
    """List all users."""
    ctl.banner("Listing users ...")
    rows = [(user["name"], user["tags"]) for user in ctl.client.get("users")]
    ctl.rows(rows, ("user", "tags"), empty_line=True)


@command("hash_password", "<cleartext_password>", "Hashes a password for definitions",
         USERS, needs=NOTHING, counts=(0, 1))  # fmt: skip
def hash_password(ctl: CommandRun) -> None:
    """Hash a password: a salt of four bytes, and SHA-256 of the salt and the password."""
    shown = f"password {ctl.argument(0)}" if ctl.arguments else "provided password"
    ctl.banner(f"Will hash {shown}")
    salt = os.urandom(4)
    digest = hashlib.sha256(salt + _password(ctl, 0).encode()).digest()
    ctl.say(base64.b64encode(salt + digest).decode())


# Permissions


def _require(ctl: CommandRun, user: str) -> None:
    """Raise CtlError unless the user and the virtual host exist."""
    try:
        ctl.client.get("users", user)
    except HttpError as error:
        if error.status == 404:
            raise failure(f"User {user} does not exist", NO_USER) from None
        raise
    require_vhost(ctl, ctl.vhost, code=UNAVAILABLE)


@command("set_permissions", "[--vhost <vhost>] <username> <conf> <write> <read>",
         "Sets user permissions for a vhost", ACCESS)  # fmt: skip
def set_permissions(ctl: CommandRun) -> None:
    """Set permissions for one virtual host."""
    name, configure, write, read = ctl.arguments
    ctl.banner(f'Setting permissions for user "{name}" in vhost "{ctl.vhost}" ...')
    _require(ctl, name)
    body = {"configure": configure, "write": write, "read": read}
    ctl.client.put("permissions", ctl.vhost, name, body=body)


@command("set_permissions_globally", "<username> <conf> <write> <read>",
         "Sets user permissions for all virtual hosts", ACCESS)  # fmt: skip
def set_permissions_globally(ctl: CommandRun) -> None:
    """Set permissions for every virtual host."""
    name, configure, write, read = ctl.arguments
    ctl.banner(f'Setting permissions for user "{name}" in all virtual hosts ...')
    find_user(ctl, name, NO_USER)
    for vhost in ctl.client.get("vhosts"):
        body = {"configure": configure, "write": write, "read": read}
        ctl.client.put("permissions", vhost["name"], name, body=body)


def _delete_if_there(ctl: CommandRun, *path: str) -> None:
    try:
        ctl.client.delete(*path)
    except HttpError as error:
        if error.status != 404:
            raise


@command("clear_permissions", "[--vhost <vhost>] <username>",
         "Revokes user permissions for a vhost", ACCESS)  # fmt: skip
def clear_permissions(ctl: CommandRun) -> None:
    """Remove permissions for a virtual host."""
    name = ctl.argument(0)
    ctl.banner(f'Clearing permissions for user "{name}" in vhost "{ctl.vhost}" ...')
    _require(ctl, name)
    _delete_if_there(ctl, "permissions", ctl.vhost, name)


def _list(ctl: CommandRun, columns: tuple[str, ...], *path: str) -> None:
    rows = [[row[name] for name in columns] for row in ctl.client.get(*path)]
    ctl.rows(rows, columns, empty_line=True)


@command("list_permissions", "[--vhost <vhost>] [--no-table-headers]",
         "Lists user permissions in a virtual host", ACCESS)  # fmt: skip
def list_permissions(ctl: CommandRun) -> None:
    """List permissions of a virtual host."""
    ctl.banner(f'Listing permissions for vhost "{ctl.vhost}" ...')
    require_vhost(ctl, ctl.vhost)
    _list(ctl, ("user", "configure", "write", "read"), "vhosts", ctl.vhost, "permissions")


@command("list_user_permissions", "[--no-table-headers] <username>",
         "Lists permissions of a user across all virtual hosts", ACCESS)  # fmt: skip
def list_user_permissions(ctl: CommandRun) -> None:
    """List permissions of a user."""
    name = ctl.argument(0)
    ctl.banner(f'Listing permissions for user "{name}" ...')
    find_user(ctl, name)
    _list(ctl, ("vhost", "configure", "write", "read"), "users", name, "permissions")


@command("set_topic_permissions", "[--vhost <vhost>] <username> <exchange> <write> <read>",
         "Sets user topic permissions for an exchange", ACCESS)  # fmt: skip
def set_topic_permissions(ctl: CommandRun) -> None:
    """Set permissions on routing keys of a topic exchange."""
    name, exchange, write, read = ctl.arguments
    ctl.banner(
        f'Setting topic permissions on "{exchange}" for user "{name}" in vhost "{ctl.vhost}" ...'
    )
    _require(ctl, name)
    body = {"exchange": exchange, "write": write, "read": read}
    ctl.client.put("topic-permissions", ctl.vhost, name, body=body)


@command("clear_topic_permissions", "[--vhost <vhost>] <username> [<exchange>]",
         "Clears user topic permissions for a vhost or exchange", ACCESS)  # fmt: skip
def clear_topic_permissions(ctl: CommandRun) -> None:
    """Remove topic permissions."""
    name, exchange = ctl.argument(0), ctl.argument(1)
    where = f' on "{exchange}"' if exchange else ""
    ctl.banner(f'Clearing topic permissions{where} for user "{name}" in vhost "{ctl.vhost}" ...')
    _require(ctl, name)
    only = (exchange,) if exchange else ()
    _delete_if_there(ctl, "topic-permissions", ctl.vhost, name, *only)


@command("list_topic_permissions", "[--vhost <vhost>] [--no-table-headers]",
         "Lists topic permissions in a virtual host", ACCESS)  # fmt: skip
def list_topic_permissions(ctl: CommandRun) -> None:
    """List topic permissions of a virtual host."""
    ctl.banner(f'Listing topic permissions for vhost "{ctl.vhost}" ...')
    require_vhost(ctl, ctl.vhost)
    _list(ctl, ("user", "exchange", "write", "read"), "vhosts", ctl.vhost, "topic-permissions")


@command("list_user_topic_permissions", "[--no-table-headers] <username>",
         "Lists user topic permissions", ACCESS)  # fmt: skip
def list_user_topic_permissions(ctl: CommandRun) -> None:
    """List topic permissions of a user."""
    name = ctl.argument(0)
    ctl.banner(f'Listing topic permissions for user "{name}" ...')
    find_user(ctl, name)
    _list(ctl, ("vhost", "exchange", "write", "read"), "users", name, "topic-permissions")
