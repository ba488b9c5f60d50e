"""The rows of the metadata store that declarations are read from, and rows of its parameters table.

The parameters table contains more than parameters: a kind of object without a table of its own
writes rows there, under components that no other kind uses.
"""

import json
from collections.abc import Container, Iterator
from typing import Any

from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import Definitions, ParameterRow


class StoredRows:
    """All rows of a metadata store.

    claimed: the components whose rows in the parameters table are not parameters. parameters: the
    other rows of that table.
    """

    def __init__(self, definitions: Definitions, claimed: Container[str]) -> None:
        self.definitions = definitions
        self.parameters: list[ParameterRow] = []
        self._claimed: dict[str, list[ParameterRow]] = {}
        for row in definitions.parameters:
            if row.component in claimed:
                self._claimed.setdefault(row.component, []).append(row)
            else:
                self.parameters.append(row)

    def of(self, component: str) -> Iterator[tuple[str, str, Any]]:
        """Vhost, name and value of the rows of a component that is claimed."""
        for row in self._claimed.get(component, ()):
            yield row.vhost, row.name, json.loads(row.value)

    def values(self, component: str) -> dict[tuple[str, str], Any]:
        """The same values by vhost and name."""
        return {(vhost, name): value for vhost, name, value in self.of(component)}


def put_row(metadata: Metadata, vhost: str, component: str, name: str, value: Any) -> None:
    """Write a row of the parameters table. Raises MetadataError."""
    metadata.put_parameter(ParameterRow(vhost, component, name, json.dumps(value)))
