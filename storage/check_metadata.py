"""Looking over the declarations of a stopped node, and leaving the damaged ones out.

Both work on a copy: to open the file of a node moves its log into it, and what is damaged should be
seen as it is.
"""

import shutil
import tempfile
from pathlib import Path

from storage.disk import StoreError
from storage.metadata import MetadataError, SqliteMetadata
from storage.metadata_rows import Definitions

FILE = "metadata.sqlite"
DAMAGED = "damaged"


def _files(directory: Path) -> list[Path]:
    """The database, its log, and what belongs to them."""
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


def check_metadata(directory: Path) -> list[str]:
    """What is wrong with the declarations, in words."""
    if not (directory / FILE).exists():
        return [f"{directory / FILE} is missing"]
    try:
        return _load_copy(directory).damaged
    except MetadataError as error:
        return [str(error)]


def repair_metadata(directory: Path) -> bool:
    """Write the declarations that are whole anew, if some are not; whether that was so.

    Raises StoreError if nothing can be read: without declarations a node would take all messages
    for those of deleted queues.
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
