"""The route of the description. It needs no login: it does not depend on the node's data."""

from typing import Any

from leveret.mgmt.api.call import Call
from leveret.mgmt.api.description.document import document
from leveret.mgmt.api.routes import route


@route("GET", "/openapi.json", is_open=True, works_stopped=True)
async def show_description(call: Call) -> Any:
    """The description of the API, in OpenAPI 3.1."""
    prefix = call.node.config.management.path_prefix.rstrip("/")
    return document(prefix, with_control=call.identity.is_administrator)
