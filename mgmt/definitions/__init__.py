"""Definitions: everything that is declared, as RabbitMQ's definitions files have it.

`exporting` writes them, `checking` says what is wrong with some, `importing` brings them in, and
`changes` tells beforehand what an import would do.
"""

from mgmt.definitions.changes import changes
from mgmt.definitions.contents import Definitions, DefinitionsError, Problem, read_definitions
from mgmt.definitions.exporting import export, export_one
from mgmt.definitions.importing import Import

__all__ = [
    "Definitions", "DefinitionsError", "Import", "Problem", "changes", "export", "export_one",
    "read_definitions",
]  # fmt: skip
