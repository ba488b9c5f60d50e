"""Operations on traces and their files, with their schemas."""

from leveret.broker.tracing.trace import BODIES, FORMATS, NO_BODIES
from leveret.mgmt.api.description.operation import Operation, TaggedOperations
from leveret.mgmt.api.description.schemas import (
    COUNT,
    NAME,
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

_PAYLOAD_BYTES = described(COUNT, "How many bytes of a payload are written; all by default.")
_PAYLOAD = described(one_of(NO_BODIES, BODIES), "Whether a log has the bodies of messages.")
_SAMPLE = described({"type": "integer", "minimum": 1}, "Log one message in this number.")
_PATTERN = described(TEXT, "A topic pattern for publish.{exchange} and deliver.{queue}.")

SCHEMAS: dict[str, Schema] = {
    "Trace": record(
        {
            "vhost": TEXT, "name": NAME, "format": one_of(*FORMATS), "pattern": TEXT,
            "written": described(COUNT, "Records since the start of the trace."),
            "lost": described(COUNT, "Records that were lost because the disk was too slow."),
            "waiting_bytes": COUNT,
            "problem": described(TEXT, "Why nothing can be written; empty without an error."),
        },
        {
            "max_payload_bytes": COUNT, "tracer_connection_username": NAME, "payload": _PAYLOAD,
            "sample": _SAMPLE,
        },
    ),
    "TraceFile": record({"name": NAME, "size": COUNT}),
}  # fmt: skip

TRACE = body(
    {"format": one_of(*FORMATS), "pattern": _PATTERN},
    {
        "max_payload_bytes": nullable(_PAYLOAD_BYTES), "payload": _PAYLOAD, "sample": _SAMPLE,
        "tracer_connection_username": nullable(TEXT), "tracer_connection_password": nullable(TEXT),
    },
)  # fmt: skip


def _on_node(path: str, *, has_node: bool) -> tuple[str, tuple[int, ...]]:
    """The path, with the name of a node in it or not, and the statuses of its errors."""
    kind, _, rest = path.partition("/")
    if not has_node:
        return f"/{path}", ()
    return f"/{kind}/node/{{node}}/{rest}".rstrip("/"), (400,)


def _operations(*, has_node: bool) -> tuple[Operation, ...]:
    traces, failing = _on_node("traces", has_node=has_node)
    of_vhost = f"{traces}/{{vhost}}"
    trace = f"{of_vhost}/{{name}}"
    files = _on_node("trace-files", has_node=has_node)[0]
    return (
        _traces.gets(traces, list_of(ref("Trace")), *failing),
        _traces.gets(of_vhost, list_of(ref("Trace")), *failing),
        _traces.shows(trace, ref("Trace"), 404, *failing),
        _traces.puts(trace, TRACE, 404),
        _traces.deletes(trace, 404, *failing),
        _traces.gets(files, list_of(ref("TraceFile")), *failing),
        Operation(
            "GET",
            f"{files}/{{name}}",
            "traces",
            TEXT,
            (404, *failing),
            answer_type="text/plain application/gzip",
        ),
        _traces.deletes(f"{files}/{{name}}", 400, 404),
    )


OPERATIONS = (*_operations(has_node=False), *_operations(has_node=True))
