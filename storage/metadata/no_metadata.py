"""The metadata of a broker without a data directory: nothing is written or found."""

from contextlib import AbstractContextManager, nullcontext

from leveret.storage.metadata.metadata_rows import Definitions


def _do_nothing(*_arguments: object, **_named: object) -> None:
    """An operation on metadata that are not stored."""


class NoMetadata:
    """Metadata in memory only, for a broker without a data directory."""

    def load(self) -> Definitions:
        """No declarations."""
        return Definitions()

    def batch(self) -> AbstractContextManager[None]:
        """A block that does nothing."""
        return nullcontext()

    put_vhost = put_user = put_permission = put_topic_permission = _do_nothing
    put_exchange = put_queue = put_binding = put_parameter = _do_nothing
    delete_vhost = delete_user = delete_permission = delete_topic_permission = _do_nothing
    delete_exchange = delete_queue = delete_binding = delete_parameter = _do_nothing
    delete_parameters = _do_nothing
    reserve_storage_ids = sync = checkpoint = close = _do_nothing
    changes = synced_changes = 0
    _last_id = 0

    def delete_part(self, *_where: str) -> int:
        """There are no rows."""
        return 0

    def storage_id_of(self, _vhost: str, _queue: str) -> int:
        """There are no rows."""
        return 0

    def new_storage_id(self, above: int = 0) -> int:
        """Count up from 1, or from `above`."""
        self._last_id = max(self._last_id, above) + 1
        return self._last_id
