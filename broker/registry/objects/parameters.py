"""Runtime parameters that are neither policies nor limits.

The values of federation upstreams and shovels contain passwords, and those of global parameters
may: the events and the audit omit the values. Source of the events: RabbitMQ's
`rabbit_runtime_parameters`.
"""

import json
from collections.abc import Iterator
from typing import Any

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.decided_replacements import DECIDED_REPLACEMENT
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import DeleteParameter, PutParameter, RequireParameter
from leveret.broker.events.events import Events
from leveret.broker.policies.parameters import GLOBAL, LINK_COMPONENTS, NO_VHOST
from leveret.broker.registry.declared_objects import NO_STEPS, VHOST, DeclaredObjects, Place
from leveret.broker.registry.stored_rows import StoredRows, put_row
from leveret.storage.metadata.metadata import Metadata

PARAMETER = "parameter"
PUBLIC_COMPONENTS = (GLOBAL, *LINK_COMPONENTS)
"""Components whose parameters have events; the others are internal to the node."""

Change = DeleteParameter | RequireParameter


class RequirementError(ValueError):
    """A parameter does not have the value that a `RequireParameter` names: nothing is declared."""


class DeclaredParameters(DeclaredObjects[PutParameter, Change]):
    """The parameters of all components except those of policies and limits."""

    types = (PutParameter, DeleteParameter, RequireParameter)

    @staticmethod
    def write(it: PutParameter | Change, metadata: Metadata) -> None:
        if isinstance(it, PutParameter):
            put_row(metadata, it.vhost, it.component, it.name, it.value)
        else:
            assert not isinstance(it, RequireParameter), f"{it!r} was not completed"
            metadata.delete_parameter(it.vhost, it.component, it.name)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutParameter]:
        for row in rows.parameters:
            yield PutParameter(row.component, row.vhost, row.name, json.loads(row.value))

    @staticmethod
    def place(it: PutParameter) -> Place:
        return PARAMETER, it.vhost, it.component, it.name

    @staticmethod
    def needs(it: PutParameter) -> tuple[Place, ...]:
        return ((VHOST, it.vhost),)

    @staticmethod
    def deletion(it: PutParameter) -> DeleteParameter:
        return DeleteParameter(it.component, it.vhost, it.name)

    def contents(self) -> Iterator[PutParameter]:
        for component, vhost, name, value in self._tables.parameters.everything():
            yield PutParameter(component, vhost, name, value)

    def check(self, it: PutParameter | Change) -> None:
        if not isinstance(it, RequireParameter):
            return
        if self._tables.parameters.get(it.component, it.vhost, it.name) != it.value:
            raise RequirementError(
                f"nothing was declared, as it depends on an earlier value of parameter '{it.name}' "
                f"of component '{it.component}'"
            )

    def completed(self, it: PutParameter | Change) -> PutParameter | DeleteParameter | None:
        # A requirement has been met (`check`).
        return None if isinstance(it, RequireParameter) else it

    def apply(self, it: PutParameter | Change) -> Iterator[int]:
        assert not isinstance(it, RequireParameter), f"{it!r} was not completed"
        tables = self._tables
        if isinstance(it, PutParameter):
            tables.parameters.put(it.component, it.vhost, it.name, it.value)
        elif not tables.parameters.remove(it.component, it.vhost, it.name):
            return NO_STEPS
        tables.dependents.parameter_changed(it.component, it.vhost, it.name)
        if tables.events.are_wanted and it.component in PUBLIC_COMPONENTS:
            event = "parameter.set" if isinstance(it, PutParameter) else "parameter.cleared"
            emit(tables.events, event, it.component, it.vhost, it.name, it.acting_user)
        return NO_STEPS

    def is_reported(self, it: PutParameter | Change, requester: Requester) -> bool:
        return it.component != DECIDED_REPLACEMENT and super().is_reported(it, requester)

    def acts(self, it: PutParameter | Change) -> Iterator[AuditedChange]:
        done = "set" if isinstance(it, PutParameter) else "cleared"
        if it.component == GLOBAL:
            what = f"global parameter '{it.name}'"
        else:
            what = f"runtime parameter '{it.name}' of component '{it.component}'"
            what += f" in virtual host '{it.vhost}'"
        detail = {"component": it.component}
        text = f"Successfully {done} {what}"
        yield AuditedChange(f"parameter.{done}", PARAMETER, it.name, text, it.vhost, detail)


def emit(
    events: Events,
    event: str,
    component: str,
    vhost: str,
    name: str,
    acting_user: str,
    **value: Any,
) -> None:
    """Emit the event of a parameter, which RabbitMQ also emits for some policies and limits."""
    where = {} if vhost == NO_VHOST else {"vhost": vhost}
    events.notify(event, {
        **where, "component": component, "name": name, **value,
        "user_who_performed_action": acting_user,
    })  # fmt: skip
