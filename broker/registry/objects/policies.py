"""Policies and operator policies, which are rows of the parameters table.

Source of the events: RabbitMQ's `rabbit_policy`, and `rabbit_runtime_parameters` for operator
policies.
"""

from collections.abc import Iterator

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import DeletePolicy, Policy, PutPolicy
from leveret.broker.events.events import Events
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import check_policy
from leveret.broker.policies.runtime_parameters import policy_value
from leveret.broker.registry.declared_objects import NO_STEPS, VHOST, DeclaredObjects, Place
from leveret.broker.registry.objects import parameters
from leveret.broker.registry.stored_rows import StoredRows, put_row
from leveret.storage.metadata.metadata import Metadata


class DeclaredPolicies(DeclaredObjects[PutPolicy, DeletePolicy]):
    """The policies and operator policies of all vhosts."""

    types = (PutPolicy, DeletePolicy)
    components = (POLICY, OPERATOR_POLICY)

    @staticmethod
    def write(it: PutPolicy | DeletePolicy, metadata: Metadata) -> None:
        if isinstance(it, PutPolicy):
            policy = it.policy
            put_row(metadata, policy.vhost, it.component, policy.name, policy_value(policy))
        else:
            metadata.delete_parameter(it.vhost, it.component, it.name)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutPolicy]:
        for component in (POLICY, OPERATOR_POLICY):
            for vhost, name, value in rows.of(component):
                policy = Policy(
                    vhost, name, value["pattern"], value["apply-to"], value["definition"],
                    value["priority"],
                )  # fmt: skip
                yield PutPolicy(component, policy)

    @staticmethod
    def place(it: PutPolicy) -> Place:
        return POLICY, it.policy.vhost, it.component, it.policy.name

    @staticmethod
    def needs(it: PutPolicy) -> tuple[Place, ...]:
        return ((VHOST, it.policy.vhost),)

    @staticmethod
    def deletion(it: PutPolicy) -> DeletePolicy:
        return DeletePolicy(it.component, it.policy.vhost, it.policy.name)

    def contents(self) -> Iterator[PutPolicy]:
        for component in (POLICY, OPERATOR_POLICY):
            for policy in self._tables.policies.all(component):
                yield PutPolicy(component, policy)

    def check(self, it: PutPolicy | DeletePolicy) -> None:
        if isinstance(it, PutPolicy):
            check_policy(
                it.policy, it.component == OPERATOR_POLICY,
                may_lift_limits=self._tables.policies.may_lift_limits,
            )  # fmt: skip

    def apply(self, it: PutPolicy | DeletePolicy) -> Iterator[int]:
        tables = self._tables
        if isinstance(it, PutPolicy):
            tables.policies.put(it.component, it.policy)
            tables.policing.policies_changed(it.policy.vhost)
            _policy_put(tables.events, it)
        elif tables.policies.remove(it.component, it.vhost, it.name):
            tables.policing.policies_changed(it.vhost)
            _policy_deleted(tables.events, it)
        return NO_STEPS

    def acts(self, it: PutPolicy | DeletePolicy) -> Iterator[AuditedChange]:
        kind = "operator policy" if it.component == OPERATOR_POLICY else POLICY
        event = kind.replace(" ", ".")
        if isinstance(it, DeletePolicy):
            text = f"Successfully cleared {kind} '{it.name}' in virtual host '{it.vhost}'"
            yield AuditedChange(f"{event}.cleared", kind, it.name, text, it.vhost)
            return
        policy = it.policy
        text = (
            f"Successfully set {kind} '{policy.name}' matching {policy.apply_to} names in virtual "
            f"host '{policy.vhost}' using pattern '{policy.pattern}'"
        )
        detail = {
            "pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority,
            "definition": dict(policy.definition),
        }  # fmt: skip
        yield AuditedChange(f"{event}.set", kind, policy.name, text, policy.vhost, detail)


def _policy_put(events: Events, it: PutPolicy) -> None:
    """For an operator policy RabbitMQ also emits a parameter event."""
    if not events.are_wanted:
        return
    policy, value = it.policy, policy_value(it.policy)
    if it.component == OPERATOR_POLICY:
        parameters.emit(
            events, "parameter.set", it.component, policy.vhost, policy.name, it.acting_user,
            value=value,
        )  # fmt: skip
    events.notify("policy.set", {
        "name": policy.name, "vhost": policy.vhost, **value,
        "user_who_performed_action": it.acting_user,
    })  # fmt: skip


def _policy_deleted(events: Events, it: DeletePolicy) -> None:
    if not events.are_wanted:
        return
    if it.component == OPERATOR_POLICY:
        parameters.emit(
            events, "parameter.cleared", it.component, it.vhost, it.name, it.acting_user
        )
    events.notify("policy.cleared" if it.component == POLICY else "operator.policy.cleared", {
        "name": it.name, "vhost": it.vhost, "user_who_performed_action": it.acting_user,
    })  # fmt: skip
