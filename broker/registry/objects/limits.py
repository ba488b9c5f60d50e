"""Limits of vhosts and of users, which are rows of the parameters table.

Source of the events: RabbitMQ's `rabbit_vhost_limit` and `rabbit_auth_backend_internal`, and
`rabbit_runtime_parameters` for limits of vhosts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import (
    DeleteUserLimits,
    DeleteVhostLimits,
    PutUserLimits,
    PutVhostLimits,
)
from leveret.broker.events.events import Events
from leveret.broker.policies.parameters import NO_VHOST, USER_LIMITS, VHOST_LIMITS
from leveret.broker.policies.runtime_parameters import VHOST_LIMITS_NAME
from leveret.broker.registry.declared_objects import NO_STEPS, USER, VHOST, DeclaredObjects, Place
from leveret.broker.registry.objects import parameters
from leveret.broker.registry.stored_rows import StoredRows, put_row
from leveret.storage.metadata.metadata import Metadata

LIMITS = "limits"


class DeclaredVhostLimits(DeclaredObjects[PutVhostLimits, DeleteVhostLimits]):
    """The limits of vhosts: one declaration sets all limits of one of them."""

    types = (PutVhostLimits, DeleteVhostLimits)
    components = (VHOST_LIMITS,)

    @staticmethod
    def write(it: PutVhostLimits | DeleteVhostLimits, metadata: Metadata) -> None:
        if isinstance(it, PutVhostLimits):
            put_row(metadata, it.vhost, VHOST_LIMITS, VHOST_LIMITS_NAME, dict(it.limits))
        else:
            metadata.delete_parameter(it.vhost, VHOST_LIMITS, VHOST_LIMITS_NAME)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutVhostLimits]:
        for vhost, _, limits in rows.of(VHOST_LIMITS):
            yield PutVhostLimits(vhost, limits)

    @staticmethod
    def place(it: PutVhostLimits) -> Place:
        return VHOST_LIMITS, it.vhost

    @staticmethod
    def needs(it: PutVhostLimits) -> tuple[Place, ...]:
        return ((VHOST, it.vhost),)

    @staticmethod
    def deletion(it: PutVhostLimits) -> DeleteVhostLimits:
        return DeleteVhostLimits(it.vhost)

    def contents(self) -> Iterator[PutVhostLimits]:
        for vhost, limits in self._tables.limits.vhosts():
            yield PutVhostLimits(vhost, limits)

    def apply(self, it: PutVhostLimits | DeleteVhostLimits) -> Iterator[int]:
        tables = self._tables
        if isinstance(it, PutVhostLimits):
            tables.limits.put_vhost(it.vhost, it.limits)
            _vhost_limits_put(tables.events, it)
        elif tables.limits.remove_vhost(it.vhost):
            _vhost_limits_deleted(tables.events, it)
        return NO_STEPS

    def acts(self, it: PutVhostLimits | DeleteVhostLimits) -> Iterator[AuditedChange]:
        where = f"limits of virtual host '{it.vhost}'"
        if isinstance(it, PutVhostLimits):
            text = f"Successfully set {where} to {_listed(it.limits)}"
            yield AuditedChange(
                "vhost.limits.set", LIMITS, it.vhost, text, it.vhost, dict(it.limits)
            )
        else:
            text = f"Successfully cleared {where}"
            yield AuditedChange("vhost.limits.cleared", LIMITS, it.vhost, text, it.vhost)


class DeclaredUserLimits(DeclaredObjects[PutUserLimits, DeleteUserLimits]):
    """The limits of users: one declaration sets all limits of one of them."""

    types = (PutUserLimits, DeleteUserLimits)
    components = (USER_LIMITS,)

    @staticmethod
    def write(it: PutUserLimits | DeleteUserLimits, metadata: Metadata) -> None:
        if isinstance(it, PutUserLimits):
            put_row(metadata, NO_VHOST, USER_LIMITS, it.user, dict(it.limits))
        else:
            metadata.delete_parameter(NO_VHOST, USER_LIMITS, it.user)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutUserLimits]:
        for _, user, limits in rows.of(USER_LIMITS):
            yield PutUserLimits(user, limits)

    @staticmethod
    def place(it: PutUserLimits) -> Place:
        return USER_LIMITS, it.user

    @staticmethod
    def needs(it: PutUserLimits) -> tuple[Place, ...]:
        return ((USER, it.user),)

    @staticmethod
    def deletion(it: PutUserLimits) -> DeleteUserLimits:
        return DeleteUserLimits(it.user)

    def contents(self) -> Iterator[PutUserLimits]:
        for user, limits in self._tables.limits.users():
            yield PutUserLimits(user, limits)

    def apply(self, it: PutUserLimits | DeleteUserLimits) -> Iterator[int]:
        tables = self._tables
        if isinstance(it, PutUserLimits):
            tables.limits.put_user(it.user, it.limits)
            if tables.events.are_wanted:
                facts = {"username": it.user, **it.limits}
                _emit(tables.events, "user.limits.set", facts, it.acting_user)
        elif tables.limits.remove_user(it.user):
            user_limits_deleted(tables.events, it.user, it.acting_user)
        return NO_STEPS

    def acts(self, it: PutUserLimits | DeleteUserLimits) -> Iterator[AuditedChange]:
        where = f"limits of user '{it.user}'"
        if isinstance(it, PutUserLimits):
            text = f"Successfully set {where} to {_listed(it.limits)}"
            yield AuditedChange("user.limits.set", LIMITS, it.user, text, detail=dict(it.limits))
        else:
            yield AuditedChange(
                "user.limits.cleared", LIMITS, it.user, f"Successfully cleared {where}"
            )


def _listed(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in limits.items()) or "none"


def _vhost_limits_put(events: Events, it: PutVhostLimits) -> None:
    if events.are_wanted:
        parameters.emit(
            events, "parameter.set", VHOST_LIMITS, it.vhost, VHOST_LIMITS_NAME, it.acting_user,
            value=dict(it.limits),
        )  # fmt: skip
        _emit(events, "vhost.limits.set", {"vhost": it.vhost, **it.limits}, it.acting_user)


def _vhost_limits_deleted(events: Events, it: DeleteVhostLimits) -> None:
    if events.are_wanted:
        parameters.emit(
            events, "parameter.cleared", VHOST_LIMITS, it.vhost, VHOST_LIMITS_NAME, it.acting_user
        )
        _emit(events, "vhost.limits.cleared", {"vhost": it.vhost}, it.acting_user)


def user_limits_deleted(events: Events, user: str, acting_user: str) -> None:
    """The limits of a user were cleared."""
    if events.are_wanted:
        _emit(events, "user.limits.cleared", {"username": user}, acting_user)


def _emit(events: Events, event: str, facts: dict[str, Any], acting_user: str) -> None:
    events.notify(
        event, {"name": VHOST_LIMITS_NAME, **facts, "user_who_performed_action": acting_user}
    )
