"""Events about users and permissions.

Source: RabbitMQ's `rabbit_auth_backend_internal`. acting_user: the user who requested the change.
"""

from leveret.broker.declarations import Permission, TopicPermission, User
from leveret.broker.events.events import Events


def user_put(events: Events, before: User | None, user: User, acting_user: str) -> None:
    """A user was added, or its password or tags were changed."""
    if not events.are_wanted:
        return
    by = {"user_who_performed_action": acting_user}
    if before is None:
        events.notify("user.created", {"name": user.name, **by})
    elif before.password_hash != user.password_hash:
        changed = "changed" if user.password_hash else "cleared"
        events.notify(f"user.password.{changed}", {"name": user.name, **by})
    if user.tags != (() if before is None else before.tags):
        events.notify("user.tags.set", {"name": user.name, "tags": list(user.tags), **by})


def user_deleted(events: Events, name: str, acting_user: str) -> None:
    """A user was deleted."""
    if events.are_wanted:
        events.notify("user.deleted", {"name": name, "user_who_performed_action": acting_user})


def permission_put(events: Events, permission: Permission, acting_user: str) -> None:
    """A user's permissions in a vhost were set."""
    if events.are_wanted:
        events.notify("permission.created", {
            "user": permission.user, "vhost": permission.vhost,
            "configure": permission.configure, "write": permission.write,
            "read": permission.read, "user_who_performed_action": acting_user,
        })  # fmt: skip


def permission_deleted(events: Events, vhost: str, user: str, acting_user: str) -> None:
    """A user's permissions in a vhost were cleared."""
    if events.are_wanted:
        events.notify("permission.deleted", {
            "user": user, "vhost": vhost, "user_who_performed_action": acting_user,
        })  # fmt: skip


def topic_permission_put(events: Events, permission: TopicPermission, acting_user: str) -> None:
    """A user's topic permissions on an exchange were set."""
    if events.are_wanted:
        events.notify("topic.permission.created", {
            "user": permission.user, "vhost": permission.vhost, "exchange": permission.exchange,
            "write": permission.write, "read": permission.read,
            "user_who_performed_action": acting_user,
        })  # fmt: skip


def topic_permission_deleted(events: Events, vhost: str, user: str, acting_user: str) -> None:
    """A user's topic permissions were cleared."""
    if events.are_wanted:
        events.notify("topic.permission.deleted", {
            "user": user, "vhost": vhost, "user_who_performed_action": acting_user,
        })  # fmt: skip
