"""A scenario: a prepared state and requests; recorded from one broker, replayed against another.

A recording is a list with one entry for each request: its title, the status, selected headers, and
the body after normal.py. A replay compares with it and reports differences.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mgmt.recorder.broker import Broker
from tests.mgmt.recorder.compare import differences
from tests.mgmt.recorder.normal import merged, normalised, only_ours, typed
from tests.mgmt.recorder.requests import PREFIX, Request, emptied, filled
from tests.mgmt.recorder.state import Names, Prepare, empty_vhost, login

GOLDEN = Path(__file__).parents[1] / "golden" / "answers"
RETRY_SECONDS = 0.1
Recorded = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """Requests that are sent one after the other, in a prepared state."""

    name: str
    requests: tuple[Request, ...]
    prepare: Prepare = empty_vhost

    @property
    def vhost(self) -> str:
        return f"{PREFIX}-{self.name}"

    @property
    def recording(self) -> list[Recorded]:
        """The recorded answers of RabbitMQ."""
        recorded: list[Recorded] = json.loads(self._path.read_text(encoding="utf-8"))
        return recorded

    @property
    def _path(self) -> Path:
        return GOLDEN / f"{self.name}.json"

    def record(self, broker: Broker, settle_seconds: float) -> None:
        """Record the answers that the broker gives in both of two runs."""
        answers = [self._answers(broker, settle_seconds) for _ in range(2)]
        for one, other in zip(*answers, strict=True):
            if one["status"] != other["status"]:
                raise AssertionError(f"{one['request']}: once {one}, then {other}")
        entries = [normalised(merged(*pair)) for pair in zip(*answers, strict=True)]
        for request, entry in zip(self.requests, entries, strict=True):
            if request.types_only:
                entry["body"] = typed(entry["body"])
        text = ",\n".join(json.dumps(entry, indent=1, ensure_ascii=False) for entry in entries)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(f"[\n{text}\n]\n", encoding="utf-8")

    def _answers(self, broker: Broker, settle_seconds: float) -> list[Recorded]:
        entries = []
        has_settled = False
        with self.prepare(broker, self.vhost) as names:
            for request in self.requests:
                if request.settles and not has_settled:
                    time.sleep(settle_seconds)
                    has_settled = True
                elif request.changes:
                    has_settled = False
                entries.append(asked(broker, request, names))
        return entries

    def replay(
        self, broker: Broker, settle_seconds: float, is_deliberate: Callable[[str], bool]
    ) -> list[str]:
        """Return the differences from RabbitMQ's answers, one line each.

        settle_seconds: total time for statistics to become correct.
        """
        recorded = self.recording
        titles = [request.title() for request in self.requests]
        if titles != [entry["request"] for entry in recorded]:
            raise AssertionError(
                f"{self._path.name} was recorded with other requests than {self.name} has now; "
                "record it again with python -m tests.mgmt.recorder.record"
            )
        found = []
        deadline = time.monotonic() + settle_seconds
        with self.prepare(broker, self.vhost) as names:
            for request, entry in zip(self.requests, recorded, strict=True):
                lines = self._lines(broker, request, names, entry, is_deliberate)
                while lines and request.settles and time.monotonic() < deadline:
                    time.sleep(RETRY_SECONDS)
                    lines = self._lines(broker, request, names, entry, is_deliberate)
                found += lines
        return found

    def _lines(
        self,
        broker: Broker,
        request: Request,
        names: Names,
        entry: Recorded,
        is_deliberate: Callable[[str], bool],
    ) -> list[str]:
        lines = compared(broker, request, names, entry)
        return [line for line in lines if not is_deliberate(f"{self.name}: {line}")]


def asked(broker: Broker, request: Request, names: Names) -> Recorded:
    """Return the broker's answer to a request, including volatile values."""
    path, body = filled([request.path, request.body], names)
    answer = broker.ask(request.method, path, body, login(request.user), request.headers)
    last_segment = request.path.partition("?")[0].rpartition("/")[2]
    entry = {
        "request": request.title(),
        "status": answer.status,
        "headers": _comparable(emptied(answer.headers, names)),
    }
    shown = only_ours(emptied(answer.body, names), last_segment)
    return entry if shown is None else entry | {"body": shown}


def _comparable(headers: dict[str, str]) -> dict[str, str]:
    comparable = dict(headers)
    if "Allow" in headers:
        comparable["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    if "Location" in headers:
        comparable["Location"] = headers["Location"]
    return comparable


def compared(broker: Broker, request: Request, names: Names, entry: Recorded) -> list[str]:
    """Return the differences of the broker's current answer to a request."""
    found = asked(broker, request, names)
    lines = _of_answers(entry, found, request.ordered)
    return [f"{entry['request']} | {line.lstrip('.')}" for line in lines]


def _of_answers(expected: Recorded, found: Recorded, ordered: bool) -> Iterator[str]:
    if expected["status"] == 500 and found["status"] < 500:
        # RabbitMQ fails with an internal error: any other answer is acceptable.
        return
    if expected["status"] == found["status"]:
        yield from differences(expected, found, "", ordered)
    else:
        bodies = [str(one.get("body"))[:160] for one in (found, expected)]
        yield f"status: {found['status']} {bodies[0]} instead of {expected['status']} {bodies[1]}"
