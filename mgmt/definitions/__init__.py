"""Definitions: everything that is declared on a node, in the form of RabbitMQ's definitions files.

`exporting` writes them, `checking` finds the problems of a file, `importing` applies it, and
`changes` computes the changes that an import would make.
"""

from leveret.mgmt.definitions.changes import changes
from leveret.mgmt.definitions.contents import (
    DefinitionLists,
    DefinitionsError,
    ImportProblem,
    read_definitions,
)
from leveret.mgmt.definitions.exporting import export, export_one
from leveret.mgmt.definitions.importing import Import

__all__ = [
    "DefinitionLists", "DefinitionsError", "Import", "ImportProblem", "changes", "export",
    "export_one", "read_definitions",
]  # fmt: skip
