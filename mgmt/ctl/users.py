"""Users and their permissions."""

import getpass
import sys
from typing import Any

from mgmt.ctl.client import HttpError
from mgmt.ctl.command import Session, command
from mgmt.ctl.errors import DATA_ERROR, NO_USER, SOFTWARE, CtlError

USERS, ACCESS = "Users", "Access Control"


def find_user(ctl: Session, name: str) -> dict[str, Any]:
    """A user. Raises CtlError."""
    try:
        found: dict[str, Any] = ctl.client.get("users", name)
    except HttpError as error:
        if error.status == 404:
            raise CtlError(f'Error:\nUser "{name}" does not exist', NO_USER) from None
        raise
    return found


def _password(ctl: Session, place: int) -> str:
    """An argument, or what the terminal or a pipe says."""
    if place < len(ctl.arguments):
        return ctl.arguments[place]
    if sys.stdin.isatty():
        return getpass.getpass("Password: ")
    return sys.stdin.readline().rstrip("\n")


@command("add_user", "<username> [<password>]", "Creates a new user in the internal database",
         USERS, "pre-hashed-password")  # fmt: skip
def add_user(ctl: Session) -> None:
    """Add a user without tags."""
    name = ctl.argument(0)
    ctl.banner(f'Adding user "{name}" ...')
    password = _password(ctl, 1)
    if any(user["name"] == name for user in ctl.client.get("users")):
        raise CtlError(f'Error:\nUser "{name}" already exists', SOFTWARE)
    if not password:
        raise CtlError("Error: password cannot be empty", DATA_ERROR)
    key = "password_hash" if ctl.options.get("pre_hashed_password") else "password"
    ctl.client.put("users", name, body={key: password, "tags": ""})
    ctl.say(
        "Done. Don't forget to grant the user permissions to some virtual hosts! "
        "See 'leveretctl help set_permissions' to learn more."
    )


@command("delete_user", "<username>", "Removes a user from the internal database", USERS)
def delete_user(ctl: Session) -> None:
    """Delete a user."""
    name = ctl.argument(0)
    ctl.banner(f'Deleting user "{name}" ...')
    find_user(ctl, name)
    ctl.client.delete("users", name)


@command("change_password", "<username> [<password>]", "Changes the user password", USERS)
def change_password(ctl: Session) -> None:
    """Give a user another password."""
    name = ctl.argument(0)
    ctl.banner(f'Changing password for user "{name}" ...')
    user = find_user(ctl, name)
    password = _password(ctl, 1)
    if not password:
        raise CtlError("Error: password cannot be empty", DATA_ERROR)
    ctl.client.put("users", name, body={"password": password, "tags": user["tags"]})


@command("clear_password", "<username>",
         "Clears (resets) password and disables password login for a user", USERS)  # fmt: skip
def clear_password(ctl: Session) -> None:
    """Take a user's password away."""
    name = ctl.argument(0)
    ctl.banner(f'Clearing password for user "{name}" ...')
    user = find_user(ctl, name)
    ctl.client.put("users", name, body={"password_hash": "", "tags": user["tags"]})


@command("authenticate_user", "<username> [<password>]", "Attempts to authenticate a user", USERS)
def authenticate_user(ctl: Session) -> None:
    """Whether the password is right."""
    ctl.require_local()
    name = ctl.argument(0)
    ctl.banner(f'Authenticating user "{name}" ...')
    body = {"username": name, "password": _password(ctl, 1)}
    try:
        ctl.client.post("node", "check-password", body=body)
    except HttpError as error:
        raise CtlError(
            f'Error:\nError: failed to authenticate user "{name}"\n{error.reason}', DATA_ERROR
        ) from None
    ctl.say("Success")


@command("set_user_tags", "<username> [<tag>, ...]", "Sets user tags", USERS)
def set_user_tags(ctl: Session) -> None:
    """Give a user these tags instead of those that it has."""
    name, tags = ctl.argument(0), ctl.arguments[1:]
    ctl.banner(f'Setting tags for user "{name}" to [{", ".join(tags)}] ...')
    user = find_user(ctl, name)
    body = {key: user[key] for key in ("password_hash", "hashing_algorithm")}
    ctl.client.put("users", name, body={**body, "tags": tags})


@command("list_users", "", "List user names and tags", USERS)
def list_users(ctl: Session) -> None:
    """All users."""
    ctl.banner("Listing users ...")
    rows = [(user["name"], user["tags"]) for user in ctl.client.get("users")]
    ctl.rows(rows, ("user", "tags"))


@command("hash_password", "[<password>]", "Hashes a plaintext password", USERS, needs_node=True)
def hash_password(ctl: Session) -> None:
    """A hash for definitions."""
    ctl.banner("Will hash password ...")
    ctl.out(ctl.client.get("auth", "hash_password", _password(ctl, 0))["ok"])


# Permissions


@command("set_permissions", "<username> <conf> <write> <read>",
         "Sets user permissions for a vhost", ACCESS)  # fmt: skip
def set_permissions(ctl: Session) -> None:
    """Permissions in one vhost."""
    name, configure, write, read = ctl.arguments
    ctl.banner(f'Setting permissions for user "{name}" in vhost "{ctl.vhost}" ...')
    _require(ctl, name)
    body = {"configure": configure, "write": write, "read": read}
    ctl.client.put("permissions", ctl.vhost, name, body=body)


def _require(ctl: Session, user: str) -> None:
    find_user(ctl, user)
    try:
        ctl.client.get("vhosts", ctl.vhost)
    except HttpError as error:
        if error.status == 404:
            raise CtlError(
                f'Error:\nVirtual host "{ctl.vhost}" does not exist', DATA_ERROR
            ) from None
        raise


@command("set_permissions_globally", "<username> <conf> <write> <read>",
         "Sets user permissions for all virtual hosts.", ACCESS)  # fmt: skip
def set_permissions_globally(ctl: Session) -> None:
    """Permissions in every vhost."""
    name, configure, write, read = ctl.arguments
    ctl.banner(f'Setting permissions for user "{name}" in all virtual hosts ...')
    find_user(ctl, name)
    for vhost in ctl.client.get("vhosts"):
        body = {"configure": configure, "write": write, "read": read}
        ctl.client.put("permissions", vhost["name"], name, body=body)


@command("clear_permissions", "<username>", "Revokes user permissions for a vhost", ACCESS)
def clear_permissions(ctl: Session) -> None:
    """Take permissions in a vhost away."""
    name = ctl.argument(0)
    ctl.banner(f'Clearing permissions for user "{name}" in vhost "{ctl.vhost}" ...')
    _require(ctl, name)
    try:
        ctl.client.delete("permissions", ctl.vhost, name)
    except HttpError as error:
        if error.status != 404:
            raise


@command("list_permissions", "", "Lists user permissions in a virtual host", ACCESS)
def list_permissions(ctl: Session) -> None:
    """Permissions in a vhost."""
    ctl.banner(f'Listing permissions for vhost "{ctl.vhost}" ...')
    found = ctl.client.get("vhosts", ctl.vhost, "permissions")
    columns = ("user", "configure", "write", "read")
    ctl.rows([[row[name] for name in columns] for row in found], columns)


@command("list_user_permissions", "<username>",
         "Lists permissions of a user across all virtual hosts", ACCESS)  # fmt: skip
def list_user_permissions(ctl: Session) -> None:
    """A user's permissions."""
    name = ctl.argument(0)
    ctl.banner(f'Listing permissions for user "{name}" ...')
    find_user(ctl, name)
    columns = ("vhost", "configure", "write", "read")
    found = ctl.client.get("users", name, "permissions")
    ctl.rows([[row[key] for key in columns] for row in found], columns)


@command("set_topic_permissions", "<username> <exchange> <write> <read>",
         "Sets user topic permissions for an exchange", ACCESS)  # fmt: skip
def set_topic_permissions(ctl: Session) -> None:
    """Routing keys on a topic exchange."""
    name, exchange, write, read = ctl.arguments
    ctl.banner(
        f'Setting topic permissions on "{exchange}" for user "{name}" in vhost "{ctl.vhost}" ...'
    )
    _require(ctl, name)
    body = {"exchange": exchange, "write": write, "read": read}
    ctl.client.put("topic-permissions", ctl.vhost, name, body=body)


@command("clear_topic_permissions", "<username> [<exchange>]",
         "Clears user topic permissions for a vhost or exchange", ACCESS)  # fmt: skip
def clear_topic_permissions(ctl: Session) -> None:
    """Lift limits on topics."""
    name, exchange = ctl.argument(0), ctl.argument(1)
    where = f' on "{exchange}"' if exchange else ""
    ctl.banner(f'Clearing topic permissions{where} for user "{name}" in vhost "{ctl.vhost}" ...')
    _require(ctl, name)
    try:
        ctl.client.delete("topic-permissions", ctl.vhost, name, *((exchange,) if exchange else ()))
    except HttpError as error:
        if error.status != 404:
            raise


@command("list_topic_permissions", "", "Lists topic permissions in a virtual host", ACCESS)
def list_topic_permissions(ctl: Session) -> None:
    """Permissions on topics in a vhost."""
    ctl.banner(f'Listing topic permissions for vhost "{ctl.vhost}" ...')
    columns = ("user", "exchange", "write", "read")
    found = ctl.client.get("vhosts", ctl.vhost, "topic-permissions")
    ctl.rows([[row[key] for key in columns] for row in found], columns)


@command("list_user_topic_permissions", "<username>", "Lists user topic permissions", ACCESS)
def list_user_topic_permissions(ctl: Session) -> None:
    """A user's permissions on topics."""
    name = ctl.argument(0)
    ctl.banner(f'Listing topic permissions for user "{name}" ...')
    find_user(ctl, name)
    columns = ("vhost", "exchange", "write", "read")
    found = ctl.client.get("users", name, "topic-permissions")
    ctl.rows([[row[key] for key in columns] for row in found], columns)
