"""Requests that other nodes of the cluster answer too."""

from types import SimpleNamespace

from leveret.mgmt.api import other_nodes
from leveret.mgmt.api.other_nodes import ask_others


async def test_a_request_that_reads_very_many_objects_is_waited_for(monkeypatch):
    asked = []

    async def ask(_call, node, *, takes_long, **_others):
        asked.append((node, takes_long))
        return SimpleNamespace(status=200, content=b"{}")

    monkeypatch.setattr(other_nodes, "ask", ask)
    monkeypatch.setattr(other_nodes, "other_nodes", lambda _call: ["b", "c"])
    call = SimpleNamespace(left_out=set())
    assert await ask_others(call, takes_long=True) == {"b": b"{}", "c": b"{}"}
    await ask_others(call)
    assert asked == [("b", True), ("c", True), ("b", False), ("c", False)]
