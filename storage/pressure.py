"""Whether publishers should be held back, and whether the disk is full, from the log, the pager and
the number of log files. A callback reports each change.
"""

from collections.abc import Callable

from leveret.storage.log import Log
from leveret.storage.log_files import LogFiles
from leveret.storage.pager import Pager

FILES_HIGH = 10
"""Publishers are held back when more log files than this wait to be retired."""


class Pressure:
    """The state of one store.

    is_congested: publishers should be held back; `congestion_changed` is called when it changes.
    disk_filled: called with True when the disk is full, with False when there is room again.
    """

    def __init__(self, log: Log, files: LogFiles, pager: Pager) -> None:
        self._log = log
        self._files = files
        self._pager = pager
        self.is_congested = False
        self.congestion_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self._is_log_full = self._is_pager_full = False
        log.congestion_changed = pager.overfull_changed = self.look
        log.disk_filled = self._log_filled
        pager.disk_filled = self._pager_filled

    def look(self) -> None:
        """Decide again whether publishers are held back, and report a change."""
        is_congested = (
            self._log.is_congested or self._pager.is_overfull or len(self._files.files) > FILES_HIGH
        )
        if is_congested != self.is_congested:
            self.is_congested = is_congested
            self.congestion_changed()

    @property
    def _is_full(self) -> bool:
        return self._is_log_full or self._is_pager_full

    def _log_filled(self, is_full: bool) -> None:
        before = self._is_full
        self._is_log_full = is_full
        self._report(before)

    def _pager_filled(self, is_full: bool) -> None:
        before = self._is_full
        self._is_pager_full = is_full
        self._report(before)

    def _report(self, before: bool) -> None:
        if self._is_full != before:
            self.disk_filled(not before)
