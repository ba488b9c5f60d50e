"""The checks of parameters, by component."""

from collections.abc import Callable
from typing import Any, Final

from leveret.broker.erlang.terms import format_term
from leveret.broker.policies.federation_parameters import check_upstream, check_upstream_set
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import (
    FEDERATION,
    FEDERATION_UPSTREAM,
    FEDERATION_UPSTREAM_SET,
    LINK_COMPONENTS,
    SHOVEL,
)
from leveret.broker.policies.shovel_parameter import NodeVhost, check_shovel

CHECKED_COMPONENTS: Final = (*LINK_COMPONENTS, FEDERATION)


def _refuse_name(name: str, _value: Any) -> None:
    raise ParameterError(f"name not recognised: {format_term(name)}")


_CHECKS: Final[dict[str, Callable[[str, Any], None]]] = {
    FEDERATION_UPSTREAM: check_upstream,
    FEDERATION_UPSTREAM_SET: check_upstream_set,
    FEDERATION: _refuse_name,
}


def check_parameter(
    component: str, name: str, value: Any, node_vhost: NodeVhost = lambda _vhost: []
) -> None:
    """Check a value of JSON. Raises ParameterError.

    node_vhost: the problem with a shovel's connection to a vhost of the node itself. As in
    RabbitMQ, upstreams are not checked for it.
    """
    if component == SHOVEL:
        check_shovel(name, value, node_vhost)
    else:
        _CHECKS[component](name, value)


def vhosts_of_node(component: str, name: str, value: Any) -> list[str]:
    """The vhosts of the node itself that a check asks about."""
    found: list[str] = []

    def note(vhost: str) -> list[str]:
        found.append(vhost)
        return []

    try:
        check_parameter(component, name, value, note)
    except ParameterError:
        # The caller checks the value again, with the answers.
        return found
    return found
