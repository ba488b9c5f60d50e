"""The audit log: a line for each act, in the file and in memory."""

import asyncio
import json

import pytest

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import HTTP, Requester
from leveret.mgmt.events.audit import KEPT_MAX, AuditLog

ANN = Requester("ann", "10.0.0.7", HTTP)


def purge_of(queue, **detail):
    return AuditedChange("queue.purged", "queue", queue, f"Purged queue '{queue}'", "/", detail)


async def test_a_line_is_in_the_file_and_in_the_nodes_log_when_it_was_noted(tmp_path, caplog):
    caplog.set_level("INFO", "leveret.audit")
    path = tmp_path / "audit.log"
    audit = AuditLog(path)
    await audit.note(ANN, purge_of("orders", messages=3))
    line = json.loads(path.read_text())
    assert line.pop("time") > 0
    assert line == {
        "user": "ann", "address": "10.0.0.7", "way": "HTTP", "action": "queue.purged",
        "vhost": "/", "kind": "queue", "name": "orders", "text": "Purged queue 'orders'",
        "detail": {"messages": 3},
    }  # fmt: skip
    assert audit.last(10)[0].items() >= line.items()
    assert caplog.messages == [
        "Purged queue 'orders' (requested by user 'ann' from 10.0.0.7 by HTTP)"
    ]


async def test_acts_at_one_time_have_the_same_order_in_the_file_and_in_memory(tmp_path):
    path = tmp_path / "audit.log"
    audit = AuditLog(path)
    await asyncio.gather(*(audit.note(ANN, purge_of(f"q{n}")) for n in range(20)))
    in_file = [json.loads(line)["name"] for line in path.read_text().splitlines()]
    assert in_file == [line["name"] for line in reversed(audit.last(20))]
    assert in_file == [f"q{n}" for n in range(20)]


async def test_what_does_not_wait_for_its_line_is_written_before_the_node_stops(tmp_path):
    path = tmp_path / "audit.log"
    audit = AuditLog(path)
    for number in range(20):
        audit.add(ANN, purge_of(f"q{number}"))
    await audit.wait_until_written()
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == [
        f"q{number}" for number in range(20)
    ]


async def test_the_lines_are_there_again_after_a_restart_but_for_one_that_was_cut(tmp_path):
    path = tmp_path / "audit.log"
    await AuditLog(path).note(ANN, purge_of("orders"))
    with path.open("a") as file:
        file.write('{"user": "an')
    assert [line["action"] for line in AuditLog(path).last(10)] == ["queue.purged"]


async def test_what_cannot_be_written_is_refused(tmp_path):
    audit = AuditLog(tmp_path / "missing" / "audit.log")
    with pytest.raises(FileNotFoundError):
        await audit.note(ANN, purge_of("orders"))
    assert audit.last(10) == []


async def test_what_was_done_and_cannot_be_written_is_in_the_nodes_log(tmp_path, caplog):
    audit = AuditLog(tmp_path / "missing" / "audit.log")
    audit.add(ANN, purge_of("orders"))
    await audit.wait_until_written()
    await asyncio.sleep(0)
    assert "audit.log cannot be written" in caplog.messages[-1]
    assert "Purged queue 'orders'" in caplog.messages[-1]


async def test_a_line_is_written_although_a_name_is_not_utf_8(tmp_path):
    audit = AuditLog(tmp_path / "audit.log")
    await audit.note(ANN, AuditedChange("queue.purged", "queue", "caf\udce9", "Purged a queue"))
    assert audit.last(1)[0]["name"] == "caf?"


async def test_without_a_file_the_last_lines_are_in_memory():
    audit = AuditLog(None)
    for number in range(KEPT_MAX + 1):
        await audit.note(ANN, purge_of(f"q{number}"))
    assert len(audit.last(KEPT_MAX + 1)) == KEPT_MAX
    assert audit.last(1)[0]["name"] == f"q{KEPT_MAX}"
