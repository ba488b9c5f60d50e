"""The definition of a trace: its name, its vhost, and its options."""

from dataclasses import dataclass
from typing import Any

from leveret.broker.tracing.plugin_sink import JSON, TEXT
from leveret.broker.tracing.record import SAMPLE_MAX

LOG = "log"
FORMATS = (JSON, TEXT, LOG)
NAME_BYTES_MAX = 200
"""The file name has a suffix, and at most 255 bytes."""
BODIES, NO_BODIES = "base64", "none"


class TraceError(ValueError):
    """The trace is invalid. The message says why."""


@dataclass(frozen=True)
class Trace:
    """A trace, created from JSON by `of_json`, which validates it.

    payload_bytes_max: the part of a payload that is written; None for all. username: the login of
    RabbitMQ's plugin, checked but not used. has_bodies, sample: options of a log.
    """

    vhost: str
    name: str
    format: str
    pattern: str
    payload_bytes_max: int | None = None
    username: str = ""
    has_bodies: bool = False
    sample: int = 1

    @property
    def is_log(self) -> bool:
        """Whether it is a log for analysis, not in a format of the plugin."""
        return self.format == LOG

    def to_json(self) -> dict[str, Any]:
        """Encode for the API."""
        shown: dict[str, Any] = {
            "vhost": self.vhost, "name": self.name, "format": self.format, "pattern": self.pattern,
        }  # fmt: skip
        if self.payload_bytes_max is not None:
            shown["max_payload_bytes"] = self.payload_bytes_max
        if self.username:
            shown["tracer_connection_username"] = self.username
        if self.is_log:
            shown["payload"] = BODIES if self.has_bodies else NO_BODIES
            shown["sample"] = self.sample
        return shown


def of_json(vhost: str, name: str, body: dict[str, Any]) -> Trace:
    """Create the trace of a request. Raises TraceError."""
    payload_bytes_max = body.get("max_payload_bytes")
    if payload_bytes_max is not None and not _is_number(payload_bytes_max):
        raise TraceError("max_payload_bytes not integer")
    if payload_bytes_max is not None and payload_bytes_max < 0:
        raise TraceError(f"max_payload_bytes is {payload_bytes_max}, and must be 0 or more")
    if body.get("format") not in FORMATS:
        raise TraceError("format not json or text (or log)")
    if not isinstance(body.get("pattern"), str):
        raise TraceError(f"pattern must be a string such as #, and is {body.get('pattern')!r}")
    username = body.get("tracer_connection_username")
    if not isinstance(username, str | None):
        raise TraceError("tracer_connection_username must be a string")
    _check_name(name)
    sample, payload = body.get("sample", 1), body.get("payload", NO_BODIES)
    if not _is_number(sample) or not 1 <= sample <= SAMPLE_MAX:
        raise TraceError(f"sample must be an integer from 1 to {SAMPLE_MAX}, and is {sample!r}")
    if payload not in (BODIES, NO_BODIES):
        raise TraceError(f"payload must be {NO_BODIES} or {BODIES}, and is {payload!r}")
    if body["format"] != LOG and (sample != 1 or payload != NO_BODIES):
        raise TraceError(f"sample and payload are for traces of the format {LOG} only")
    return Trace(
        vhost, name, body["format"], body["pattern"], payload_bytes_max, username or "",
        payload == BODIES, sample,
    )  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_name(name: str) -> None:
    """Check that the name can be a file name."""
    if not name or name.startswith(".") or "/" in name or not name.isprintable():
        raise TraceError(
            f"the name {name!r} cannot be a file name: it must be printable, contain no / and not "
            "begin with a dot"
        )
    if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise TraceError(f"the name must have at most {NAME_BYTES_MAX} bytes")
