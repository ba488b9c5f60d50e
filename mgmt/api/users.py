"""Users, their permissions, and their topic permissions."""

import re
from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.auth.passwords import SHA256, hash_from_text, hash_to_text
from leveret.broker.auth.users import with_hash, with_password
from leveret.broker.declarations.values import (
    Declaration,
    DeletePermission,
    DeleteTopicPermission,
    DeleteUser,
    Permission,
    PutPermission,
    PutTopicPermission,
    PutUser,
    TopicPermission,
    User,
)
from leveret.broker.policies.limits import LimitError
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, not_found
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.routes import Created, NoContent, route
from leveret.mgmt.definitions.users import UserError, permissions_of, tags_of


def user_view(call: Call, user: User) -> dict[str, Any]:
    """A user."""
    return {
        "name": text(user.name),
        "password_hash": hash_to_text(user.password_hash),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": call.facade.limits.of_user(user.name),
    }


@route("GET", "/users")
async def list_users(call: Call) -> Any:
    """All users."""
    call.require_administrator()
    listing: Listing[User] = Listing(lambda user: user.name, lambda user: user_view(call, user))
    return await listing.answer(call, call.facade.users)


@route("GET", "/users/without-permissions")
async def list_users_without_permissions(call: Call) -> Any:
    """Users without permissions in any vhost."""
    call.require_administrator()
    facade = call.facade
    permitted = {row.user for row in facade.permissions.all}
    return [user_view(call, user) for user in facade.users if user.name not in permitted]


def _user(call: Call) -> User:
    user = call.facade.users.get(call.path("user"))
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
    """Add a user, or replace its password and tags."""
    call.require_administrator()
    name = call.path("user")
    body = await call.body()
    facade, acting_user = call.facade, call.identity.name
    is_new = facade.users.get(name) is None
    declarations: list[Declaration] = []
    try:
        declarations.append(PutUser(user_of(name, body), acting_user=acting_user))
        for permission in permissions_of(name, body.get("permissions"), set(facade.vhost_names())):
            declarations.append(PutPermission(permission, acting_user=acting_user))
        limits = body.get("limits")
        if limits is None:
            limits = {}
        if not isinstance(limits, dict):
            raise bad_request(["not_an_object", "limits"])
        if limits:
            declarations.append(facade.limits.with_user_limits(name, limits, acting_user))
    except UserError as error:
        raise bad_request(error.reason) from None
    except LimitError as error:
        raise bad_request(str(error)) from None
    await call.declare(*declarations)
    return Created(is_new)


def user_of(name: str, body: dict[str, Any]) -> User:
    """The user with the fields of a body. Raises 400 and UserError for invalid fields."""
    if not name:
        raise bad_request("user name must not be empty")
    tags = tags_of(body)
    if tags is None:
        raise bad_request("tags_not_present")
    password, password_hash = body.get("password"), body.get("password_hash")
    if password is not None and password_hash is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    if password is not None:
        if not isinstance(password, str):
            raise bad_request(["not_string", "password"])
        return with_password(name, password, tags)
    if password_hash is not None:
        try:
            decoded = hash_from_text(str(password_hash))
        except ValueError:
            raise bad_request(["not_base64", password_hash]) from None
        try:
            return with_hash(name, decoded, body.get("hashing_algorithm") or SHA256, tags)
        except ValueError as error:
            raise bad_request(str(error)) from None
    return with_password(name, None, tags)


@route("DELETE", "/users/{user}")
async def delete_user(call: Call) -> Any:
    """Delete a user, with its permissions and limits; its connections are closed."""
    call.require_administrator()
    await call.declare(DeleteUser(_user(call).name, acting_user=call.identity.name))
    return NoContent()


@route("POST", "/users/bulk-delete")
async def delete_users(call: Call) -> Any:
    """Delete many users."""
    call.require_administrator()
    body = await call.body("users")
    names = body["users"]
    if not isinstance(names, list):
        raise bad_request("users must be a list of names")
    users = call.facade.users
    for name in names:
        if users.get(str(name)) is None:
            raise bad_request(["no_such_user", name])
    acting_user = call.identity.name
    await call.declare(*[DeleteUser(str(name), acting_user=acting_user) for name in names])
    return NoContent()


# Permissions


def permission_view(row: Permission) -> dict[str, Any]:
    """The permissions of a user in a vhost."""
    return {
        "user": text(row.user), "vhost": text(row.vhost), "configure": row.configure,
        "write": row.write, "read": row.read,
    }  # fmt: skip


def topic_permission_view(row: TopicPermission) -> dict[str, Any]:
    """The topic permissions of a user on an exchange."""
    return {
        "user": text(row.user), "vhost": text(row.vhost),
        "exchange": text(row.exchange), "write": row.write, "read": row.read,
    }  # fmt: skip


@route("GET", "/permissions")
async def list_permissions(call: Call) -> Any:
    """All permissions."""
    call.require_administrator()
    return [permission_view(row) for row in call.facade.permissions.all]


@route("GET", "/vhosts/{vhost}/permissions")
async def list_permissions_in_vhost(call: Call) -> Any:
    """Permissions in a vhost."""
    call.require_administrator()
    vhost = call.vhost()
    rows = call.facade.permissions.all
    return [permission_view(row) for row in rows if row.vhost == vhost]


@route("GET", "/users/{user}/permissions")
async def list_permissions_of_user(call: Call) -> Any:
    """A user's permissions."""
    call.require_administrator()
    user = _user(call).name
    rows = call.facade.permissions.all
    return [permission_view(row) for row in rows if row.user == user]


def _vhost_and_user(call: Call) -> tuple[str, str]:
    vhost, user = call.path("vhost"), call.path("user")
    facade = call.facade
    if not facade.has_vhost(vhost) or facade.users.get(user) is None:
        raise bad_request("vhost_or_user_not_found")
    return vhost, user


def texts_of(body: dict[str, Any], *names: str) -> list[str]:
    """Values of the body that must be strings. Raises 400."""
    for name in names:
        if not isinstance(body[name], str):
            raise bad_request(["not_string", name])
    return [body[name] for name in names]


def _permission(call: Call) -> Permission:
    vhost, user = call.path("vhost"), call.path("user")
    for row in call.facade.permissions.all:
        if (row.vhost, row.user) == (vhost, user):
            return row
    raise not_found()


@route("GET", "/permissions/{vhost}/{user}")
async def show_permission(call: Call) -> Any:
    """A user's permissions in a vhost."""
    call.require_administrator()
    return permission_view(_permission(call))


def _bad_pattern(error: re.error) -> ApiError:
    """400 for a pattern that is not a regular expression."""
    return bad_request(["invalid_regexp", error.pattern, str(error)])


@route("PUT", "/permissions/{vhost}/{user}")
async def set_permission(call: Call) -> Any:
    """Set the permissions of a user in a vhost."""
    call.require_administrator()
    body = await call.body("configure", "write", "read")
    vhost, user = _vhost_and_user(call)
    permission = Permission(vhost, user, *texts_of(body, "configure", "write", "read"))
    is_new = not call.facade.permissions.has_vhost_access(user, vhost)
    try:
        await call.declare(PutPermission(permission, acting_user=call.identity.name))
    except re.error as error:
        raise _bad_pattern(error) from None
    return Created(is_new)


@route("DELETE", "/permissions/{vhost}/{user}")
async def clear_permission(call: Call) -> Any:
    """Delete the permissions of a user in a vhost."""
    call.require_administrator()
    row = _permission(call)
    await call.declare(DeletePermission(row.vhost, row.user, acting_user=call.identity.name))
    return NoContent()


@route("GET", "/topic-permissions")
async def list_topic_permissions(call: Call) -> Any:
    """All topic permissions."""
    call.require_administrator()
    return [topic_permission_view(row) for row in call.facade.permissions.topics]


@route("GET", "/vhosts/{vhost}/topic-permissions")
async def list_topic_permissions_in_vhost(call: Call) -> Any:
    """Topic permissions in a vhost."""
    call.require_administrator()
    vhost = call.vhost()
    rows = call.facade.permissions.topics
    return [topic_permission_view(row) for row in rows if row.vhost == vhost]


@route("GET", "/users/{user}/topic-permissions")
async def list_topic_permissions_of_user(call: Call) -> Any:
    """The topic permissions of a user."""
    call.require_administrator()
    user = _user(call).name
    rows = call.facade.permissions.topics
    return [topic_permission_view(row) for row in rows if row.user == user]


def _topic_rows(call: Call) -> list[TopicPermission]:
    vhost, user = call.path("vhost"), call.path("user")
    rows = call.facade.permissions.topics
    found = [row for row in rows if (row.vhost, row.user) == (vhost, user)]
    if not found:
        raise not_found()
    return found


@route("GET", "/topic-permissions/{vhost}/{user}")
async def show_topic_permissions(call: Call) -> Any:
    """The topic permissions of a user in a vhost."""
    call.require_administrator()
    return [topic_permission_view(row) for row in _topic_rows(call)]


@route("PUT", "/topic-permissions/{vhost}/{user}")
async def set_topic_permission(call: Call) -> Any:
    """Set the topic permissions of a user on an exchange."""
    call.require_administrator()
    body = await call.body("exchange", "write", "read")
    vhost, user = _vhost_and_user(call)
    row = TopicPermission(vhost, user, *texts_of(body, "exchange", "write", "read"))
    known = {(one.vhost, one.user) for one in call.facade.permissions.topics}
    try:
        await call.declare(PutTopicPermission(row, acting_user=call.identity.name))
    except re.error as error:
        raise _bad_pattern(error) from None
    return Created((vhost, user) not in known)


@route("GET", "/topic-permissions/{vhost}/{user}/{exchange}")
async def show_topic_permission(call: Call) -> Any:
    """The topic permissions of a user on one exchange."""
    call.require_administrator()
    exchange = call.exchange_name()
    return [topic_permission_view(row) for row in _topic_rows(call) if row.exchange == exchange]


@route(
    "DELETE", "/topic-permissions/{vhost}/{user}", "/topic-permissions/{vhost}/{user}/{exchange}"
)
async def clear_topic_permission(call: Call) -> Any:
    """Delete the topic permissions of a user, on one exchange or on all."""
    call.require_administrator()
    row = _topic_rows(call)[0]
    exchange = call.exchange_name() if "exchange" in call.request.match_info else None
    await call.declare(
        DeleteTopicPermission(row.vhost, row.user, exchange, acting_user=call.identity.name)
    )
    return NoContent()
