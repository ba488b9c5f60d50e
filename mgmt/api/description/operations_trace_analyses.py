"""Operations on analyses of trace logs, with their schemas."""

from leveret.mgmt.analysis.background_job import JobState
from leveret.mgmt.api.description.operation import Operation, TaggedOperations
from leveret.mgmt.api.description.schemas import (
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    SHARE,
    TEXT,
    Schema,
    body,
    described,
    list_of,
    nullable,
    one_of,
    record,
    ref,
)

_traces = TaggedOperations("traces")

_STATE = one_of(*(state.value for state in JobState))
_TIME_MS = nullable(described(COUNT, "Milliseconds since 1970."))
_TIME_US = nullable(described(COUNT, "Microseconds since 1970."))
_JOB: dict[str, Schema] = {
    "state": _STATE, "reason": described(TEXT, "Why it has failed; empty otherwise."),
    "started_ms": _TIME_MS, "ended_ms": _TIME_MS,
}  # fmt: skip
_MOMENT = nullable(described(TEXT, "Such as 2026-01-31T07:00; UTC unless an offset is given."))

SCHEMAS: dict[str, Schema] = {
    "TraceAnalysis": record({
        **_JOB,
        "vhost": nullable(TEXT), "from_us": _TIME_US, "to_us": _TIME_US,
        "progress": nullable(ref("TraceAnalysisStep")),
        "done": nullable(record({"events": COUNT, "rejected": COUNT, "files": COUNT})),
        "has_report": described(FLAG, "Whether there is a report, of this analysis or before."),
    }),
    "TraceAnalysisStep": record({
        "number": COUNT, "steps": COUNT, "name": NAME,
        "took": nullable(described(NUMBER, "Seconds; null while the step runs.")),
        "part": nullable(described(SHARE, "The part of a running step that is done.")),
        "events": nullable(COUNT),
        "left": described(NUMBER, "Seconds until the end of the analysis, about."),
    }),
    "TraceFindings": record({
        **_JOB, "made_ms": _TIME_MS,
        "events": described(COUNT, "Records that were read so far."),
        "findings": list_of(ref("TraceFinding")),
    }),
    "TraceFinding": record({
        "kind": NAME, "severity": one_of("bad", "warning", "note"), "vhost": TEXT,
        "about": described(list_of(TEXT), "Names of queues, exchanges or users."),
        "sentence": TEXT, "hurts": TEXT, "advice": TEXT, "evidence": TEXT,
        "since_ms": _TIME_MS, "until_ms": _TIME_MS,
        "queues": described(list_of(TEXT), "Those of the names that are queues."),
        "exchanges": described(list_of(TEXT), "Those of the names that are exchanges."),
    }),
}  # fmt: skip

_WINDOW = body({}, {"from": _MOMENT, "to": _MOMENT, "vhost": nullable(TEXT)})
_HTML = "text/html"
_REPORT = "/trace-analysis/report"

OPERATIONS = (
    _traces.gets("/trace-analysis", ref("TraceAnalysis")),
    _traces.puts("/trace-analysis", _WINDOW, 409),
    _traces.deletes("/trace-analysis", 404),
    Operation("GET", _REPORT, "traces", TEXT, (404,), answer_type=_HTML),
    Operation("GET", f"{_REPORT}/{{link}}", "traces", TEXT, (404,), answer_type=_HTML),
    _traces.posts(f"{_REPORT}/link", None, record({"link": NAME}), 404),
    _traces.gets("/trace-findings", ref("TraceFindings")),
    Operation("PUT", "/trace-findings", "traces", None, (400, 409)),
    _traces.deletes("/trace-findings", 404),
)
