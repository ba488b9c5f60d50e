"""The audit log: a line for each action, in the file and in memory."""

import asyncio
import json

import pytest

from leveret.mgmt.audit import KEPT_MAX, AuditLog


async def test_a_line_is_in_the_file_when_it_was_noted(tmp_path):
    path = tmp_path / "audit.log"
    audit = AuditLog(path)
    await audit.note("ann", "delete", "/", "orders", {"ids": ["1"]})
    line = json.loads(path.read_text())
    assert {name: line[name] for name in ("user", "action", "vhost", "queue", "detail")} == {
        "user": "ann", "action": "delete", "vhost": "/", "queue": "orders",
        "detail": {"ids": ["1"]},
    }  # fmt: skip
    assert audit.last(10) == [line]


async def test_acts_at_one_time_have_the_same_order_in_the_file_and_in_memory(tmp_path):
    path = tmp_path / "audit.log"
    audit = AuditLog(path)
    await asyncio.gather(*(audit.note("ann", "move", "/", f"q{n}", {}) for n in range(20)))
    in_file = [json.loads(line)["queue"] for line in path.read_text().splitlines()]
    assert in_file == [line["queue"] for line in reversed(audit.last(20))]
    assert sorted(in_file) == sorted(f"q{n}" for n in range(20))


async def test_the_lines_are_there_again_after_a_restart_but_for_one_that_was_cut(tmp_path):
    path = tmp_path / "audit.log"
    await AuditLog(path).note("ann", "retry", "/", "orders", {})
    with path.open("a") as file:
        file.write('{"user": "an')
    assert [line["action"] for line in AuditLog(path).last(10)] == ["retry"]


async def test_what_cannot_be_written_is_refused(tmp_path):
    audit = AuditLog(tmp_path / "missing" / "audit.log")
    with pytest.raises(FileNotFoundError):
        await audit.note("ann", "delete", "/", "orders", {})
    assert audit.last(10) == []


async def test_without_a_file_the_last_lines_are_in_memory():
    audit = AuditLog(None)
    for number in range(KEPT_MAX + 1):
        await audit.note("ann", "delete", "/", f"q{number}", {})
    assert len(audit.last(KEPT_MAX + 1)) == KEPT_MAX
    assert audit.last(1)[0]["queue"] == f"q{KEPT_MAX}"
