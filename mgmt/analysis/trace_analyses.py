"""The analyses of a node's trace logs: a window with a report, and the findings of the last hour.

Their tables are in the data directory, in a directory for each. A report is shown by a link that is
valid once, for a minute, so that the address of the page has no password.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from leveret.broker.resources.available_memory import available_bytes
from leveret.mgmt.analysis.background_job import BackgroundJob, JobState

DIRECTORY = "trace-analysis"
REPORT, WORK = "report.html", "_work"
MEMORY_BYTES_MAX = 1_000_000_000
MEMORY_SHARE = 4
"""An analysis may use a quarter of the memory for data, or MEMORY_BYTES_MAX if that is less."""
LINK_SECONDS, LINKS_MAX = 60, 20
UNREAD_SECONDS_MAX = 900
"""Findings that were not read for so long are no longer made."""


class AnalysedWindow(NamedTuple):
    """What is analysed: microseconds since 1970, and a virtual host; None for all."""

    from_us: int | None = None
    to_us: int | None = None
    vhost: str | None = None


class TraceAnalyses:
    """The analyses of a node. window: that of the last analysis. now_s: a clock, in seconds."""

    def __init__(self, data_dir: Path | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._directory = None if data_dir is None else data_dir / DIRECTORY
        self.analysis = self._job("analysis", "the analysis of trace logs")
        self.findings = self._job("findings", "the analysis of the last hour")
        self.window = AnalysedWindow()
        self._links: dict[str, float] = {}
        self._read_s = 0.0
        self._unread: asyncio.Task[None] | None = None

    @property
    def report(self) -> Path | None:
        """The file of the last report; None if there is none."""
        out = self.directory_of(self.analysis)
        path = None if out is None else out / REPORT
        return path if path is not None and path.exists() else None

    def directory_of(self, job: BackgroundJob) -> Path | None:
        """The directory of the tables; None if the node has no data directory."""
        return None if self._directory is None else self._directory / job.kind

    def _job(self, kind: str, name: str) -> BackgroundJob:
        work = None if self._directory is None else self._directory / kind / WORK
        return BackgroundJob(kind, name, work)

    async def analyse(self, logs: Path, out: Path, window: AnalysedWindow) -> None:
        """Start the analysis of a window. Raises JobRunsError and OSError."""
        await self.analysis.start(_task(self.analysis, logs, out, window))
        self.window = window

    async def follow(self, logs: Path, out: Path) -> None:
        """Start to make findings. Raises JobRunsError and OSError."""
        await self.findings.start(_task(self.findings, logs, out, AnalysedWindow()))
        self.note_reader()
        self._unread = asyncio.get_running_loop().create_task(self._end_unread())

    def note_reader(self) -> None:
        """Note that the findings are read now."""
        self._read_s = self._now_s()

    async def close(self) -> None:
        """End all jobs."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        for job in (self.analysis, self.findings):
            await job.cancel()

    async def _end_unread(self) -> None:
        while self.findings.state is JobState.RUNNING:
            left = self._read_s + UNREAD_SECONDS_MAX - self._now_s()
            if left <= 0:
                await self.findings.cancel()
            else:
                await asyncio.sleep(left)

    # Links to the report

    def new_link(self) -> str:
        """Return a text with which the report is shown once. There are at most LINKS_MAX."""
        self._forget_old_links()
        while len(self._links) >= LINKS_MAX:
            self._links.pop(next(iter(self._links)))
        link = secrets.token_urlsafe(16)
        self._links[link] = self._now_s() + LINK_SECONDS
        return link

    def use_link(self, link: str) -> bool:
        """Tell whether a link is valid, and end its validity."""
        self._forget_old_links()
        return self._links.pop(link, None) is not None

    def _forget_old_links(self) -> None:
        now = self._now_s()
        self._links = {link: until for link, until in self._links.items() if until > now}


def _task(job: BackgroundJob, logs: Path, out: Path, window: AnalysedWindow) -> dict[str, object]:
    memory_bytes = min(MEMORY_BYTES_MAX, available_bytes() // MEMORY_SHARE)
    return {
        "kind": job.kind, "directory": str(logs), "out": str(out), "memory_bytes": memory_bytes,
        **window._asdict(),
    }  # fmt: skip
