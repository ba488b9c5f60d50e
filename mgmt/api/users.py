"""Users, their permissions, and their permissions on topics."""

import re
from typing import Any

from broker.auth.passwords import SHA256, hash_from_text, hash_to_text
from broker.auth.users import User
from mgmt.api.call import Call
from mgmt.api.errors import ApiError, bad_request, not_found
from mgmt.api.listing import Listing
from mgmt.api.routes import Created, NoContent, route
from mgmt.api.vhosts import tags_of
from mgmt.views.values import text
from storage.metadata_rows import PermissionRow, TopicPermissionRow


def user_view(call: Call, user: User) -> dict[str, Any]:
    """A user."""
    return {
        "name": text(user.name),
        "password_hash": hash_to_text(user.password_hash),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": call.broker.services.limits.of_user(user.name),
    }


@route("GET", "/users")
async def list_users(call: Call) -> Any:
    """All users."""
    call.require_administrator()
    listing: Listing[User] = Listing(lambda user: user.name, lambda user: user_view(call, user))
    return await listing.answer(call, call.broker.services.users)


@route("GET", "/users/without-permissions")
async def list_users_without_permissions(call: Call) -> Any:
    """Users who may do nothing anywhere."""
    call.require_administrator()
    services = call.broker.services
    permitted = {row.user for row in services.permissions.rows}
    return [user_view(call, user) for user in services.users if user.name not in permitted]


def _user(call: Call) -> User:
    user = call.broker.services.users.get(call.path("user"))
    if user is None:
        raise not_found()
    return user


@route("GET", "/users/{user}")
async def show_user(call: Call) -> Any:
    """One user."""
    call.require_administrator()
    return user_view(call, _user(call))


@route("PUT", "/users/{user}")
async def put_user(call: Call) -> Any:
    """Add a user, or give it another password and other tags."""
    call.require_administrator()
    name = call.path("user")
    body = await call.body()
    is_new = call.broker.services.users.get(name) is None
    put_user_of(call, name, body)
    return Created(is_new)


def put_user_of(call: Call, name: str, body: dict[str, Any]) -> None:
    """Add or replace a user. Raises 400."""
    users = call.broker.services.users
    if not name:
        raise bad_request("user name must not be empty")
    tags = tags_of(body.get("tags", body.get("administrator") and "administrator"))
    if tags is None:
        raise bad_request("tags_not_present")
    password, password_hash = body.get("password"), body.get("password_hash")
    if password is not None and password_hash is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    if password is not None:
        if not isinstance(password, str):
            raise bad_request(["not_string", "password"])
        if not password:
            raise bad_request('password must not be empty; a password_hash of "" is no password')
        users.add(name, password, tags)
    elif password_hash is not None:
        try:
            decoded = hash_from_text(str(password_hash))
        except ValueError:
            raise bad_request(["not_base64", password_hash]) from None
        try:
            users.add_with_hash(name, decoded, body.get("hashing_algorithm") or SHA256, tags)
        except ValueError as error:
            raise bad_request(str(error)) from None
    else:
        users.add(name, None, tags)


def delete_user_of(call: Call, user: str) -> None:
    """The user goes, with its permissions, and its connections are closed."""
    services = call.broker.services
    services.users.delete(user)
    services.permissions.forget_user(user)
    services.limits.clear_for_user(user)
    for connection in tuple(call.broker.connections):
        if connection.login is None and connection.user.name == user:
            connection.force_close(f"user '{user}' is deleted")


@route("DELETE", "/users/{user}")
async def delete_user(call: Call) -> Any:
    """Delete a user."""
    call.require_administrator()
    delete_user_of(call, _user(call).name)
    return NoContent()


@route("POST", "/users/bulk-delete")
async def delete_users(call: Call) -> Any:
    """Delete many users."""
    call.require_administrator()
    body = await call.body("users")
    names = body["users"]
    if not isinstance(names, list):
        raise bad_request("users must be a list of names")
    users = call.broker.services.users
    for name in names:
        if users.get(str(name)) is None:
            raise bad_request(["no_such_user", name])
    for name in names:
        delete_user_of(call, str(name))
    return NoContent()


# Permissions


def permission_view(row: PermissionRow) -> dict[str, Any]:
    """What a user may do in a vhost."""
    return {
        "user": text(row.user), "vhost": text(row.vhost), "configure": row.configure,
        "write": row.write, "read": row.read,
    }  # fmt: skip


def topic_permission_view(row: TopicPermissionRow) -> dict[str, Any]:
    """A user's routing keys on a topic exchange."""
    return {
        "user": text(row.user), "vhost": text(row.vhost),
        "exchange": text(row.exchange), "write": row.write, "read": row.read,
    }  # fmt: skip


@route("GET", "/permissions")
async def list_permissions(call: Call) -> Any:
    """All permissions."""
    call.require_administrator()
    return [permission_view(row) for row in call.broker.services.permissions.rows]


@route("GET", "/vhosts/{vhost}/permissions")
async def list_permissions_in_vhost(call: Call) -> Any:
    """Permissions in a vhost."""
    call.require_administrator()
    vhost = call.vhost().name
    rows = call.broker.services.permissions.rows
    return [permission_view(row) for row in rows if row.vhost == vhost]


@route("GET", "/users/{user}/permissions")
async def list_permissions_of_user(call: Call) -> Any:
    """A user's permissions."""
    call.require_administrator()
    user = _user(call).name
    rows = call.broker.services.permissions.rows
    return [permission_view(row) for row in rows if row.user == user]


def _vhost_and_user(call: Call) -> tuple[str, str]:
    vhost, user = call.path("vhost"), call.path("user")
    services = call.broker.services
    if vhost not in services.vhosts or services.users.get(user) is None:
        raise bad_request("vhost_or_user_not_found")
    return vhost, user


def texts_of(body: dict[str, Any], *names: str) -> list[str]:
    """These values, which have to be texts. Raises 400."""
    for name in names:
        if not isinstance(body[name], str):
            raise bad_request(["not_string", name])
    return [body[name] for name in names]


def _permission(call: Call) -> PermissionRow:
    vhost, user = call.path("vhost"), call.path("user")
    for row in call.broker.services.permissions.rows:
        if (row.vhost, row.user) == (vhost, user):
            return row
    raise not_found()


@route("GET", "/permissions/{vhost}/{user}")
async def show_permission(call: Call) -> Any:
    """A user's permissions in a vhost."""
    call.require_administrator()
    return permission_view(_permission(call))


def _bad_pattern(error: re.error) -> ApiError:
    """A pattern of a permission that is no regular expression; they are kept as bytes."""
    pattern = error.pattern
    shown = pattern.decode(errors="replace") if isinstance(pattern, bytes) else pattern
    return bad_request(["invalid_regexp", shown, str(error)])


@route("PUT", "/permissions/{vhost}/{user}")
async def set_permission(call: Call) -> Any:
    """Give a user permissions in a vhost."""
    call.require_administrator()
    body = await call.body("configure", "write", "read")
    vhost, user = _vhost_and_user(call)
    permissions = call.broker.services.permissions
    is_new = not permissions.has_vhost_access(user, vhost)
    try:
        permissions.set(PermissionRow(vhost, user, *texts_of(body, "configure", "write", "read")))
    except re.error as error:
        raise _bad_pattern(error) from None
    return Created(is_new)


@route("DELETE", "/permissions/{vhost}/{user}")
async def clear_permission(call: Call) -> Any:
    """Take a user's permissions in a vhost away."""
    call.require_administrator()
    row = _permission(call)
    call.broker.services.permissions.clear(row.vhost, row.user)
    return NoContent()


@route("GET", "/topic-permissions")
async def list_topic_permissions(call: Call) -> Any:
    """All permissions on topics."""
    call.require_administrator()
    return [topic_permission_view(row) for row in call.broker.services.permissions.topic_rows]


@route("GET", "/vhosts/{vhost}/topic-permissions")
async def list_topic_permissions_in_vhost(call: Call) -> Any:
    """Permissions on topics in a vhost."""
    call.require_administrator()
    vhost = call.vhost().name
    rows = call.broker.services.permissions.topic_rows
    return [topic_permission_view(row) for row in rows if row.vhost == vhost]


@route("GET", "/users/{user}/topic-permissions")
async def list_topic_permissions_of_user(call: Call) -> Any:
    """A user's permissions on topics."""
    call.require_administrator()
    user = _user(call).name
    rows = call.broker.services.permissions.topic_rows
    return [topic_permission_view(row) for row in rows if row.user == user]


def _topic_rows(call: Call) -> list[TopicPermissionRow]:
    vhost, user = call.path("vhost"), call.path("user")
    rows = call.broker.services.permissions.topic_rows
    found = [row for row in rows if (row.vhost, row.user) == (vhost, user)]
    if not found:
        raise not_found()
    return found


@route("GET", "/topic-permissions/{vhost}/{user}")
async def show_topic_permissions(call: Call) -> Any:
    """A user's permissions on topics in a vhost."""
    call.require_administrator()
    return [topic_permission_view(row) for row in _topic_rows(call)]


@route("PUT", "/topic-permissions/{vhost}/{user}")
async def set_topic_permission(call: Call) -> Any:
    """Limit a user's routing keys on a topic exchange."""
    call.require_administrator()
    body = await call.body("exchange", "write", "read")
    vhost, user = _vhost_and_user(call)
    permissions = call.broker.services.permissions
    row = TopicPermissionRow(vhost, user, *texts_of(body, "exchange", "write", "read"))
    known = {(one.vhost, one.user) for one in permissions.topic_rows}
    try:
        permissions.set_topic(row)
    except re.error as error:
        raise _bad_pattern(error) from None
    return Created((vhost, user) not in known)


@route("GET", "/topic-permissions/{vhost}/{user}/{exchange}")
async def show_topic_permission(call: Call) -> Any:
    """A user's permissions on one topic exchange."""
    call.require_administrator()
    exchange = call.exchange_name()
    return [topic_permission_view(row) for row in _topic_rows(call) if row.exchange == exchange]


@route(
    "DELETE", "/topic-permissions/{vhost}/{user}", "/topic-permissions/{vhost}/{user}/{exchange}"
)
async def clear_topic_permission(call: Call) -> Any:
    """Lift a user's limits on topics: on one exchange, or on all."""
    call.require_administrator()
    row = _topic_rows(call)[0]
    exchange = call.exchange_name() if "exchange" in call.request.match_info else None
    call.broker.services.permissions.clear_topic(row.vhost, row.user, exchange)
    return NoContent()
