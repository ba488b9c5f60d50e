"""Checking and repairing the metadata of a stopped node.

Both read a copy: opening the file moves SQLite's log into it, and a check must change nothing.
"""

import shutil
import tempfile
from pathlib import Path

from leveret.storage.disk.disk import StoreError
from leveret.storage.metadata.metadata import MetadataError, SqliteMetadata
from leveret.storage.metadata.metadata_rows import Definitions

FILE = "metadata.sqlite"
DAMAGED = "damaged"


def _files(directory: Path) -> list[Path]:
    """The database file, SQLite's log, and the files beside them."""
    return sorted(directory.glob(f"{FILE}*"))


def _load_copy(directory: Path) -> Definitions:
    with tempfile.TemporaryDirectory(prefix="leveret-check-") as place:
        for path in _files(directory):
            shutil.copy(path, place)
        metadata = SqliteMetadata(Path(place) / FILE)
        try:
            return metadata.load()
        finally:
            metadata.close()


def check_metadata(directory: Path) -> Definitions:
    """The declarations, with the problems of their file; empty if they cannot be read."""
    if not (directory / FILE).exists():
        return Definitions(damaged=[f"{directory / FILE} is missing"])
    try:
        return _load_copy(directory)
    except MetadataError as error:
        return Definitions(damaged=[str(error)])


def repair_metadata(directory: Path) -> bool:
    """If declarations are damaged, write a new file with the intact ones. Returns whether it did.

    The damaged file is moved to `damaged/`. Raises StoreError if nothing can be read: a node
    without declarations would remove all messages as those of deleted queues.
    """
    if not (directory / FILE).exists():
        return False
    try:
        definitions = _load_copy(directory)
    except MetadataError as error:
        raise StoreError(
            f"{error}; it cannot be repaired, and without it the messages belong to no queue: "
            "restore it from a copy"
        ) from error
    if not definitions.damaged:
        return False
    aside = directory / DAMAGED
    aside.mkdir(exist_ok=True)
    for path in _files(directory):
        path.rename(aside / path.name)
    _write(directory / FILE, definitions)
    return True


def _write(path: Path, definitions: Definitions) -> None:
    metadata = SqliteMetadata(path)
    try:
        metadata.load()
        with metadata.batch():
            for vhost in definitions.vhosts:
                metadata.put_vhost(vhost)
            for user in definitions.users:
                metadata.put_user(user)
            for permission in definitions.permissions:
                metadata.put_permission(permission)
            for topic_permission in definitions.topic_permissions:
                metadata.put_topic_permission(topic_permission)
            for exchange in definitions.exchanges:
                metadata.put_exchange(exchange)
            for queue in definitions.queues:
                metadata.put_queue(queue)
            for binding in definitions.bindings:
                metadata.put_binding(binding)
            for parameter in definitions.parameters:
                metadata.put_parameter(parameter)
        metadata.sync()
    finally:
        metadata.close()
