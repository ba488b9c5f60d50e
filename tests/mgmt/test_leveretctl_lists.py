"""Lists of leveretctl are whole: one snapshot of the node, of which rows come as they are made."""

import json
import socket
import threading

import pytest

from leveret.mgmt.api_names import CONTROL_SOCKET, LINES
from leveret.mgmt.ctl.client import NodeClient
from tests.mgmt.ctl_command import Ctl, run_command
from tests.patience import PATIENCE_SECONDS

PAGE = 500
"""More queues than on a page of the API are listed."""
STAY = [f"{number:04}.stay" for number in range(2 * PAGE)]
GO = [f"{number:04}.go" for number in range(PAGE)]


@pytest.fixture
def ctl(node):
    return Ctl(node)


@pytest.fixture
def queues(node, vhost):
    """Queues of which each second one is about to go, in the first half of the list."""
    declared = [
        {"name": name, "durable": True, "auto_delete": False, "arguments": {}}
        for name in (*STAY, *GO)
    ]
    assert node.post(f"definitions/{vhost}", {"queues": declared}).status == 204
    return declared


@pytest.fixture
def client(node):
    return NodeClient(
        data_dir=node.data_dir, url="", username="", password="", timeout=PATIENCE_SECONDS
    )


def delete(node, vhost, names):
    for name in names:
        assert node.delete(f"queues/{vhost}/{name}").status == 204


def test_queues_that_stay_are_listed_though_others_go_between_requests(
    ctl, node, vhost, queues, monkeypatch
):
    send, left, requests = NodeClient._send, list(GO), []

    def delete_and_send(client, method, path, *others):
        requests.append(path)
        delete(node, vhost, left[:100])
        del left[:100]
        return send(client, method, path, *others)

    monkeypatch.setattr(NodeClient, "_send", delete_and_send)
    listed = ctl("-q", "-p", vhost, "list_queues", "name").split()
    assert [name for name in listed if name.endswith("stay")] == STAY
    assert requests == [("node", "ping"), ("queues", vhost)]


def test_queues_that_stay_are_listed_though_others_go_while_rows_come(node, vhost, queues, client):
    rows = client.rows("queues", vhost)
    first = next(rows)["name"]
    delete(node, vhost, GO[1:])
    listed = [first, *(row["name"] for row in rows)]
    assert [name for name in listed if name.endswith("stay")] == STAY
    assert listed == sorted(listed)


def test_a_vhost_that_goes_while_its_queues_are_listed_ends_no_list(node, vhost, queues, client):
    rows = client.rows("queues", vhost)
    assert next(rows)["name"] == GO[0]
    node.delete(f"vhosts/{vhost}")
    assert len(list(rows)) <= len(queues)


@pytest.mark.parametrize("kind", ["connections", "channels", "exchanges", "bindings", "consumers"])
def test_lines_are_what_the_list_has(node, vhost, channel, client, kind):
    channel.queue_declare("one")
    channel.queue_bind("one", "amq.topic", "#", {"x": 1})
    channel.basic_consume("one", lambda *_: None)
    path = (kind,) if kind in ("connections", "channels") else (kind, vhost)
    columns = {"columns": "name,vhost,source,arguments,consumer_tag,number"}
    node.wait_until(lambda: client.get(*path, **columns))
    assert list(client.rows(*path, **columns)) == client.get(*path, **columns)


@pytest.mark.parametrize("formatter", ["json", "csv", "table", "pretty_table"])
def test_each_format_has_all_rows(ctl, vhost, queues, formatter):
    shown = ctl("-p", vhost, "list_queues", "name", "messages", "--formatter", formatter)
    assert all(name in shown for name in (*STAY, *GO))
    if formatter == "json":
        assert json.loads(shown)[0] == {"name": GO[0], "messages": 0}


def test_only_the_columns_that_are_needed_are_asked_for(ctl, vhost, channel, monkeypatch):
    channel.queue_declare("one")
    asked, send = [], NodeClient._send

    def note(client, method, path, body, query, headers):
        asked.append(query)
        return send(client, method, path, body, query, headers)

    monkeypatch.setattr(NodeClient, "_send", note)
    ctl("-p", vhost, "list_queues", "messages", "pid")
    assert asked[-1] == {"columns": "node,state,messages,name", "tables": "typed"}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b'd\r\n{"na', "the connection was lost"),
        (b'd\r\n{"name":"a"}\n\r\n', "the connection was lost"),
        (b'd\r\n{"name":"a"}\n\r\n0\r\n\r\n', "ended its answer before the end of the list"),
    ],
)
def test_a_list_without_its_end_is_an_error(tmp_path, sent, reason):
    answers = [_json(b'{"node":"a@b","is_running":true}'), _lines(sent)]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / CONTROL_SOCKET))
        listener.listen()
        serving = threading.Thread(target=_serve, args=(listener, answers))
        serving.start()
        done = run_command("--data-dir", tmp_path, "-q", "list_exchanges", "name")
        serving.join()
    assert done.returncode == 69
    assert reason in done.stderr


def _serve(listener, answers):
    for answer in answers:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(65536)
            accepted.sendall(answer)


def _json(content):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(content), content)


def _lines(chunks):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n" % LINES.encode()
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
