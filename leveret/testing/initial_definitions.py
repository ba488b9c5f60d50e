"""The definitions that an embedded broker starts with: RabbitMQ's definitions files, or a dict."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leveret.broker.node.broker import Broker
from leveret.mgmt.definitions import DefinitionsError, Import, read_definitions
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import Slices

GivenDefinitions = Mapping[str, Any] | str | os.PathLike[str]
"""What a definitions file contains, or the path of one."""


async def import_definitions(broker: Broker, given: GivenDefinitions) -> None:
    """Declare what the definitions contain. Raises ValueError, OSError and TypeError."""
    give_way = Slices().give_way
    try:
        content = await read_definitions(_encoded(given), None, give_way)
        await Import(NodeFacade(broker), content, give_way).run()
    except DefinitionsError as error:
        problems = [f"\n  {path}: {reason}" for path, reason in error.problems]
        shown = "".join(problems or [str(error)])
        raise ValueError(
            f"the embedded broker cannot start with these definitions: {shown}"
        ) from None


def _encoded(given: GivenDefinitions) -> bytes:
    if isinstance(given, Mapping):
        return json.dumps(dict(given)).encode()
    if isinstance(given, str | os.PathLike):
        return Path(given).read_bytes()
    raise TypeError(
        f"definitions must be a dict or the path of a JSON file, and {type(given).__name__} was "
        "given"
    )
