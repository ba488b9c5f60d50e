"""Analyses of this node's trace logs: one of any time with a report, and the last hour's findings.

They run in processes of their own (mgmt/analysis), one of each kind. A node has the logs of its own
events, so each node of a cluster is asked for its own analyses.
"""

import asyncio
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.trace_files import HOUR_US, MomentError, TraceWindow, read_moment
from leveret.mgmt.analysis.background_job import BackgroundJob, JobRunsError, JobState
from leveret.mgmt.analysis.trace_analyses import AnalysedWindow
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, conflict, not_found
from leveret.mgmt.api.routes import Created, NoContent, route

KIND = "trace"
PACKAGES = ("duckdb", "pyarrow", "numpy")
"""What the process of an analysis imports, and a node does not need."""
DISK_OF_LOGS = 2
"""Bytes on disk for each byte of the logs, while they are analysed."""
DISK_RESERVE = 2
"""Free disk space that is kept, as a multiple of the disk alarm's limit."""
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)
"""The page has a script, and requests nothing. Within the sandbox it is of no origin, so that it
has no access to the login that pages of this origin have stored."""


def _job_view(job: BackgroundJob) -> dict[str, Any]:
    return {
        "state": job.state.value, "reason": job.reason,
        "started_ms": _ms(job.started_s), "ended_ms": _ms(job.ended_s),
    }  # fmt: skip


def _ms(seconds: float) -> int | None:
    return round(seconds * 1000) if seconds else None


# The analysis of a window


@route("GET", "/trace-analysis")
async def show_trace_analysis(call: Call) -> Any:
    """The analysis of trace logs that runs, or the last one, and its progress."""
    call.require_administrator()
    analyses = call.node.analyses
    job, window = analyses.analysis, analyses.window
    has_report = await asyncio.to_thread(lambda: analyses.report is not None)
    return {
        **_job_view(job), "vhost": window.vhost, "from_us": window.from_us, "to_us": window.to_us,
        "progress": job.told.get("progress"), "done": job.told.get("done"),
        "has_report": has_report,
    }  # fmt: skip


@route("PUT", "/trace-analysis")
async def start_trace_analysis(call: Call) -> Any:
    """Analyse the trace logs of a time and a virtual host, or of all. One analysis runs at once."""
    call.require_administrator()
    window = _window(await call.body())
    analyses = call.node.analyses
    logs, out = await _places(call, analyses.analysis, window)
    await call.note("trace.analysis.started", KIND, "", "Starting an analysis of trace logs")
    with _refusing():
        await analyses.analyse(logs, out, window)
    return Created()


@route("DELETE", "/trace-analysis")
async def cancel_trace_analysis(call: Call) -> Any:
    """Cancel the analysis that runs. The report of the one before stays."""
    call.require_administrator()
    analyses = call.node.analyses
    _require_running(analyses.analysis)
    await call.note("trace.analysis.cancelled", KIND, "", "Cancelling the analysis of trace logs")
    await analyses.analysis.cancel()
    return NoContent()


@contextmanager
def _refusing() -> Iterator[None]:
    """Answer the request with the reason why an analysis cannot be started."""
    try:
        yield
    except JobRunsError as error:
        raise conflict(str(error)) from None
    except OSError as error:
        raise bad_request(f"the analysis cannot be started: {error.strerror}") from None


def _window(body: Mapping[str, Any]) -> AnalysedWindow:
    """The window that a body asks for. Raises 400."""
    for name in ("from", "to", "vhost"):
        if not isinstance(body.get(name), str | None):
            raise bad_request(f"{name} should be a text")
    try:
        from_us, to_us = (_moment(body.get(name)) for name in ("from", "to"))
    except MomentError as error:
        raise bad_request(str(error)) from None
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise bad_request("from should be before to")
    return AnalysedWindow(from_us, to_us, body.get("vhost") or None)


def _moment(text: str | None) -> int | None:
    return read_moment(text) if text else None


async def _places(call: Call, job: BackgroundJob, window: AnalysedWindow) -> tuple[Path, Path]:
    """The directories of the logs and of the tables. Raises 400 and 409."""
    analyses = call.node.analyses
    if job.state is JobState.RUNNING:
        raise conflict(f"{job.name} is running: wait until it ends, or cancel it")
    logs, out = call.facade.traces.directory, analyses.directory_of(job)
    if logs is None or out is None:
        raise bad_request("a node without a data directory has no place for the tables")
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise bad_request(
            f"an analysis needs the package {missing[0]}, which is not installed: install Leveret"
            " with the extra 'analytics'"
        )
    size = await asyncio.to_thread(_bytes_of_logs, logs, TraceWindow(*window))
    if not size:
        raise bad_request(
            "there are no trace logs of this time and virtual host: add a trace of the format log"
        )
    node, needed = call.node, DISK_OF_LOGS * size
    if node.disk_free - needed < DISK_RESERVE * node.disk_limit:
        raise bad_request(
            f"the analysis of {_megabytes(size)} of logs needs up to {_megabytes(needed)} of the"
            f" disk, which has {_megabytes(node.disk_free)}, of which"
            f" {_megabytes(DISK_RESERVE * node.disk_limit)} stay free: choose a shorter time"
        )
    return logs, out


def _bytes_of_logs(directory: Path, window: TraceWindow) -> int:
    try:
        return sum(file.size for file in list_local_files(str(directory), window))
    except FileNotFoundError:
        return 0


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _require_running(job: BackgroundJob) -> None:
    if job.state is not JobState.RUNNING:
        raise not_found(f"{job.name} is not running")


# The report


def _report(call: Call) -> web.FileResponse:
    path = call.node.analyses.report
    if path is None:
        raise not_found()
    headers = {"Content-Type": "text/html", "Content-Security-Policy": REPORT_POLICY}
    return web.FileResponse(path.resolve(), headers=headers)


@route("GET", "/trace-analysis/report")
async def get_trace_report(call: Call) -> Any:
    """The report of the last analysis, a web page."""
    call.require_administrator()
    return _report(call)


@route("POST", "/trace-analysis/report/link")
async def link_trace_report(call: Call) -> Any:
    """Make a link with which a browser shows the report, once and within a minute."""
    call.require_administrator()
    if call.node.analyses.report is None:
        raise not_found()
    return {"link": f"trace-analysis/report/{call.node.analyses.new_link()}"}


@route("GET", "/trace-analysis/report/{link}", is_open=True)
async def get_linked_trace_report(call: Call) -> Any:
    """The report of the last analysis, by a link instead of a login."""
    if not call.node.analyses.use_link(call.path("link")):
        raise not_found("the link has been used, or is older than a minute: open the report again")
    return _report(call)


# The findings of the last hour


@route("GET", "/trace-findings")
async def show_trace_findings(call: Call) -> Any:
    """The findings of the last hour. They are made until they were not read for 15 minutes."""
    call.require_administrator()
    analyses = call.node.analyses
    analyses.note_reader()
    job = analyses.findings
    told = job.told.get("findings")
    if told is None:
        return {**_job_view(job), "made_ms": None, "events": 0, "findings": []}
    return {
        **_job_view(job), "made_ms": told["until_us"] // 1000, "events": told["events"],
        "findings": [_finding_view(call, one) for one in told["findings"]],
    }  # fmt: skip


def _finding_view(call: Call, one: Mapping[str, Any]) -> dict[str, Any]:
    """A finding, with those of its names that are queues and exchanges."""
    vhost, facade = one["vhost"], call.facade
    return {
        "kind": one["kind"], "severity": one["severity"], "vhost": vhost, "about": one["about"],
        "sentence": one["sentence"], "hurts": one["hurts"], "advice": one["advice"],
        "evidence": one["evidence"],
        "since_ms": _rounded(one["since_us"]), "until_ms": _rounded(one["until_us"]),
        "queues": [name for name in one["about"] if facade.has_queue(vhost, name)],
        "exchanges": [name for name in one["about"] if name and facade.has_exchange(vhost, name)],
    }  # fmt: skip


def _rounded(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds // 1000


@route("PUT", "/trace-findings")
async def start_trace_findings(call: Call) -> Any:
    """Begin to find what goes wrong, in the logs of the last hour and in what is added to them."""
    call.require_administrator()
    analyses = call.node.analyses
    since_us = round(call.facade.wall_time_s() * 1_000_000) - HOUR_US
    logs, out = await _places(call, analyses.findings, AnalysedWindow(since_us))
    await call.note("trace.findings.started", KIND, "", "Starting to analyse the last hour")
    with _refusing():
        await analyses.follow(logs, out)
    return Created()


@route("DELETE", "/trace-findings")
async def stop_trace_findings(call: Call) -> Any:
    """Find no more."""
    call.require_administrator()
    analyses = call.node.analyses
    _require_running(analyses.findings)
    await call.note("trace.findings.stopped", KIND, "", "Stopping to analyse the last hour")
    await analyses.findings.cancel()
    return NoContent()
