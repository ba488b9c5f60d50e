"""Serving the description: without a login, as it tells nothing of what is on the node."""

from typing import Any

from mgmt.api.call import Call
from mgmt.api.description.document import document
from mgmt.api.routes import route


@route("GET", "/openapi.json", is_open=True, works_stopped=True)
async def show_description(call: Call) -> Any:
    """The description of the API, in OpenAPI 3.1."""
    prefix = call.node.config.management_path_prefix.rstrip("/")
    return document(prefix, with_control=call.identity.is_administrator)
