"""systemd is told what a node does, if it runs in a unit that asks for this."""

import socket

import pytest

from leveret.mgmt.cli.systemd import READY, STOPPING, tell_systemd


@pytest.fixture(params=["path", "abstract"])
def told(request, tmp_path, monkeypatch):
    """The socket of systemd, by its kind of name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.setblocking(False)
        place = str(tmp_path / "notify")
        receiver.bind(place if request.param == "path" else f"\0{place}")
        shown = place if request.param == "path" else f"@{place}"
        monkeypatch.setenv("NOTIFY_SOCKET", shown)
        yield receiver


def test_each_state_is_a_datagram(told):
    tell_systemd(READY)
    tell_systemd(STOPPING)
    assert [told.recv(100) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]


def test_without_systemd_nobody_is_told(monkeypatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_systemd(READY)
    assert caplog.records == []


def test_a_socket_that_is_gone_is_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    tell_systemd(READY)
    assert "failed to tell systemd READY=1" in caplog.text
