"""`leveret perf` against a node: counts, end of a run, output and errors."""

import csv
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from tests.feature.certificate_authority import CertificateAuthority
from tests.forked_programs import PipedProgram, run_program
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

COMMAND = [sys.executable, "-m", "leveret.mgmt.perf.perf_command"]


def perf(*arguments):
    return run_program("leveret", "perf", *arguments)


def uri_of(node, vhost="%2F", password="guest"):
    return f"amqp://guest:{password}@127.0.0.1:{node.port}/{vhost}"


def run(node, vhost, *arguments):
    """Run it with --json, and return the object."""
    done = perf("--uri", uri_of(node, vhost), "--json", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def summary(node, vhost, *arguments):
    return run(node, vhost, *arguments)["summary"]


def queue_names(node, vhost):
    return {queue["name"] for queue in node.get(f"queues/{vhost}")}


# Counts


def test_it_is_a_command_of_leveret(node, vhost):
    command = [
        sys.executable,
        "-m",
        "leveret.mgmt.cli.entry",
        "perf",
        "-h",
        uri_of(node, vhost),
        "-C",
        "9",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert "messages in total: sent 9, received 9" in done.stdout


def test_every_message_is_published_confirmed_and_consumed(node, vhost):
    found = summary(node, vhost, "-C", 5000, "-D", 5000, "-c", 500, "-A", 10, "-q", 100, "-s", 200)
    assert (found["sent"], found["confirmed"], found["received"]) == (5000, 5000, 5000)
    latency = found["latency_us"]
    assert 0 < latency["min"] <= latency["median"] <= latency["p99"] <= latency["max"]
    assert found["confirm_latency_us"]["median"] > 0


def test_all_published_messages_are_consumed_before_the_end(node, vhost):
    found = summary(node, vhost, "-C", 20_000, "-a", "-x", 2)
    assert (found["sent"], found["received"]) == (40_000, 40_000)


def test_without_a_queues_name_each_consumer_has_all_messages(node, vhost):
    found = summary(node, vhost, "-C", 100, "-y", 3, "-D", 100)
    assert (found["sent"], found["received"]) == (100, 300)
    assert not queue_names(node, vhost)


def test_consumers_share_a_queue_and_return_messages_of_others(node, vhost):
    found = summary(
        node, vhost, "-C", 4000, "-D", 1000, "-y", 4, "-u", "shared", "-q", 10, "-A", 10
    )
    assert (found["sent"], found["received"]) == (4000, 4000)


def test_several_producers_consumers_channels_and_queues(node, vhost):
    found = summary(
        node, vhost, "-x", 3, "-y", 3, "-X", 2, "-C", 1000, "-D", 2000, "-a", "-qp", "perf-%d",
        "-qpf", 1, "-qpt", 3, "-ad", "false",
    )  # fmt: skip
    assert (found["sent"], found["received"]) == (6000, 6000)
    assert queue_names(node, vhost) == {"perf-1", "perf-2", "perf-3"}
    assert all(queue["messages"] == 0 for queue in node.get(f"queues/{vhost}"))


def test_large_persistent_messages_on_a_durable_queue(node, vhost):
    found = summary(
        node, vhost, "-C", 50, "-D", 50, "-c", 10, "-s", 300_000, "-f", "persistent", "-u", "dq",
        "-ad", "false",
    )  # fmt: skip
    assert (found["confirmed"], found["received"]) == (50, 50)
    assert found["latency_us"]["max"] > 0
    assert node.get(f"queues/{vhost}/dq")["durable"]


def test_bodies_of_files_and_json_are_timed_too(node, vhost, tmp_path):
    path = tmp_path / "body"
    path.write_text("hello")
    found = summary(node, vhost, "-C", 20, "-D", 20, "-B", path, "-T", "text/plain")
    assert (found["received"], found["latency_us"]["max"] > 0) == (20, True)
    found = summary(node, vhost, "-C", 20, "-D", 20, "-jb", "-s", 500, "-ms")
    assert (found["received"], found["latency_us"]["max"] > 0) == (20, True)


def test_messages_may_be_asked_for_one_by_one(node, vhost):
    found = summary(node, vhost, "-C", 50, "-D", 50, "-po", "-n", 10)
    assert (found["sent"], found["received"]) == (50, 50)
    found = summary(node, vhost, "-C", 50, "-D", 50, "-po", "-u", "polled", "-pi", 1)
    assert (found["sent"], found["received"]) == (50, 50)
    assert not queue_names(node, vhost)


def test_transactions_of_both_sides(node, vhost):
    found = summary(node, vhost, "-C", 105, "-D", 105, "-m", 10, "-n", 5)
    assert (found["sent"], found["received"]) == (105, 105)


def test_nacks_count_apart_from_confirms(node, vhost):
    arguments = {"x-max-length": 10, "x-overflow": "reject-publish"}
    node.put(f"queues/{vhost}/short", {"arguments": arguments})
    found = summary(node, vhost, "-y", 0, "-C", 100, "-c", 100, "-u", "short", "-p")
    assert (found["sent"], found["confirmed"], found["nacked"]) == (100, 10, 90)


def test_unroutable_messages_come_back_before_the_end(node, vhost):
    found = summary(node, vhost, "-y", 0, "-C", 2000, "-f", "mandatory", "-k", "nowhere")
    assert (found["sent"], found["returned"]) == (2000, 2000)


def test_messages_nacked_without_requeue_are_gone(node, vhost):
    found = summary(node, vhost, "-C", 100, "-D", 100, "-na", "-re", "false", "-u", "n",
                    "-ad", "false")  # fmt: skip
    assert found["received"] == 100
    assert node.get(f"queues/{vhost}/n")["messages"] == 0


# Time and rates


def test_a_rate_is_kept(node, vhost):
    found = summary(node, vhost, "-r", 500, "-z", 1, "-a")
    assert found["received"] == found["sent"] > 0
    assert found["rates"]["sent"] < 550, "a busy machine may send less, and none may send more"


def test_a_consumers_rate_and_latency_slow_it_down(node, vhost):
    found = summary(node, vhost, "-C", 200, "-D", 200, "-R", 200)
    assert found["receiving_seconds"] > 0.9
    found = summary(node, vhost, "-C", 200, "-D", 200, "-L", 5000, "-q", 10)
    assert found["receiving_seconds"] > 0.9


def test_idle_consumers_and_empty_queues_end_a_run(node, vhost):
    for reason in ("idle", "empty"):
        found = summary(node, vhost, "-C", 70, "-A", 50, "-u", reason, "-ad", "false",
                        "-ew", reason)  # fmt: skip
        assert found["received"] == 70
        assert node.get(f"queues/{vhost}/{reason}")["messages"] == 0


def test_samples_add_up_to_the_summary(node, vhost):
    found = run(node, vhost, "-z", 1.2, "-i", 0.25, "-c", 50, "-r", 2000)
    for name in ("sent", "confirmed", "received"):
        assert sum(sample[name] for sample in found["samples"]) == found["summary"][name] > 1000


# Output


def test_lines_are_printed_as_perftest_prints_them(node, vhost, tmp_path):
    path = tmp_path / "values.csv"
    done = perf("-h", uri_of(node, vhost), "-z", 1.5, "-i", 0.5, "-r", 200, "-d", "run", "-o", path)
    percentiles = r"min/median/75th/95th/99th/max consumer latency: (\d+/){5}\d+ µs"
    number = r"[\d.]+ msg/s"
    line = rf"id: run, time \d\.\d{{3}} s, sent: {number}, received: {number}, {percentiles}"
    lines = done.stdout.splitlines()
    assert re.fullmatch(line, lines[0]), lines[0]
    assert any(re.fullmatch(rf"id: run, receiving rate avg: {number}", found) for found in lines)
    rows = list(csv.DictReader(path.open()))
    assert len(rows) >= 2
    assert float(rows[0]["published (msg/s)"]) == pytest.approx(200, rel=0.3)


def test_a_terminal_has_a_table(node, vhost):
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "-h", uri_of(node, vhost), "-z", "1", "-i", "0.3", "-r", "100", "-d", "run"],
        stdout=terminal, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(screen, 65536):
            shown += piece
    except OSError:
        # The terminal was closed.
        os.close(screen)
    assert process.wait(PATIENCE_SECONDS) == 0
    text = shown.decode()
    assert "99.9th" in text
    assert "id: run, sending rate avg: " in text
    assert "id: run, time" not in text


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_ends_with_the_summary(node, vhost):
    process = subprocess.Popen(
        [*COMMAND, "-h", uri_of(node, vhost), "-r", "100", "-i", "0.2", "-c", "10"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = [process.stdout.readline() for _ in range(3)]
    assert all("sent: " in line for line in lines)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    counts = re.search(r"sent (\d+), confirmed (\d+), nacked 0, received (\d+)", rest)
    assert counts[1] == counts[2] == counts[3] != "0"


@pytest.mark.usefixtures("interrupts")
def test_a_second_ctrl_c_waits_for_nothing(node, vhost):
    process = subprocess.Popen(
        [*COMMAND, "-h", uri_of(node, vhost), "-r", "1000", "-R", "50", "-i", "0.2", "-st", "40"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = [process.stdout.readline() for _ in range(3)]
    assert all("sent: " in line for line in lines)
    process.send_signal(signal.SIGINT)
    while "sent: 0 msg/s" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "sending rate avg" in rest


# Errors


def test_what_the_broker_refuses_is_told_in_one_line(node, vhost):
    for arguments, said in (
        (("-h", uri_of(node, password="wrong")), "403, ACCESS_REFUSED"),
        (("-h", uri_of(node, "missing")), "530, NOT_ALLOWED"),
        (("-h", uri_of(node, vhost), "-p", "-u", "missing"), "404 NOT_FOUND - no queue"),
        (("-h", uri_of(node, vhost), "-p", "-y", 0, "-e", "missing"), "404 NOT_FOUND - no e"),
        (("-h", uri_of(node, vhost), "-e", "amq.fanout", "-t", "nonsense", "-y", 0, "-k", "x",
          "-qa", "x-max-length=-1", "-u", "q"), "406 PRECONDITION_FAILED"),
    ):  # fmt: skip
        done = perf(*arguments, "-z", 5)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("leveret perf: "), done.stderr
        assert done.stderr.count("\n") == 1
        assert said in done.stderr


def test_no_server_at_the_address():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    done = perf("-h", f"amqp://127.0.0.1:{port}", "--json")
    assert done.returncode == 1
    assert f"127.0.0.1:{port} cannot be reached: Connection refused" in done.stderr
    assert "Connection refused" in json.loads(done.stdout)["error"]


def test_a_server_at_the_address_that_is_not_a_broker():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            client, _ = server.accept()
            client.recv(100)
            client.close()

        threading.Thread(target=answer, daemon=True).start()
        done = perf("-h", f"amqp://127.0.0.1:{server.getsockname()[1]}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "the server closed the socket" in done.stderr


def test_a_broker_that_goes_away_ends_the_run_with_what_was_counted(tmp_path):
    node = ServedNode(tmp_path)
    try:
        options = ("-h", uri_of(node), "-r", "100", "-i", "0.2", "-a")
        process = PipedProgram("leveret", "perf", *options)
        assert "sent: " in process.stdout.readline()
        node.process.kill()
        out, err = process.communicate()
    finally:
        node.stop()
    assert process.returncode == 1
    assert "the server closed the socket" in err
    assert "sending rate avg" in out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "the broker cancelled the consumer of 'short-lived'"),
        (["-po"], "404 NOT_FOUND - no queue 'short-lived'"),
    ],
)
def test_a_deleted_queue_is_told(node, vhost, options, problem):
    words = ["-h", uri_of(node, vhost), "-r", "100", "-i", "0.2", "-u", "short-lived"]
    process = PipedProgram("leveret", "perf", *words, *options)
    assert "sent: " in process.stdout.readline()
    node.delete(f"queues/{vhost}/short-lived")
    _, err = process.communicate()
    assert process.returncode == 1
    assert problem in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_before_the_run_begins():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = subprocess.Popen(
            [*COMMAND, "-h", f"amqp://127.0.0.1:{silent.getsockname()[1]}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    assert process.returncode == 130


def test_a_wrong_use_is_told_in_one_line():
    for arguments in (("-x", 0, "-y", 0), ("--bogus",), ("-o", "/missing/file", "-z", 1)):
        done = perf(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_a_broker_that_is_starting_is_waited_for(tmp_path):
    node = ServedNode(tmp_path)
    node.stop()
    options = ("-h", uri_of(node), "-C", "10", "-D", "10", "-sst", "30")
    process = PipedProgram("leveret", "perf", *options)
    try:
        with socket.create_server(("127.0.0.1", node.port)) as server:
            # It has tried once when it reaches this server, which refuses it.
            server.settimeout(PATIENCE_SECONDS)
            server.accept()[0].close()
        node.start()
        out, err = process.communicate()
    finally:
        node.stop()
    assert (process.returncode, err) == (0, "")
    assert "received 10" in out


# TLS


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A node with TLS: the authority, the address, and the address with the authority."""
    directory = tmp_path_factory.mktemp("tls")
    authority = CertificateAuthority(directory)
    server = authority.issue("server", names=["127.0.0.1"])
    (port,) = free_ports(1)
    node = ServedNode(
        directory,
        f"""
        listeners.ssl.default = {port}
        ssl_options.certfile = {server.certfile}
        ssl_options.keyfile = {server.keyfile}
        ssl_options.cacertfile = {authority.certfile}
        ssl_options.verify = verify_peer
        ssl_cert_login_from = common_name
        auth_mechanisms.1 = PLAIN
        auth_mechanisms.2 = EXTERNAL
        """,
    )
    yield authority, f"127.0.0.1:{port}", f"127.0.0.1:{port}?cacertfile={authority.certfile}"
    node.stop()


def received(*arguments):
    done = perf(*arguments, "-C", 100, "-D", 100, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["summary"]["received"]


def test_tls_with_certificates_that_are_trusted(tls):
    authority, plain, trusting = tls
    assert received("-h", f"amqps://{trusting}") == 100
    assert received("-h", f"amqps://{plain}?verify=verify_none") == 100
    client = authority.issue("guest")
    with_key = f"amqps://x:y@{trusting}&certfile={client.certfile}&keyfile={client.keyfile}"
    assert received("-h", with_key, "--sasl-external") == 100


def test_tls_with_certificates_that_are_not(tls):
    _, plain, trusting = tls
    for arguments, said in (
        (("-h", f"amqps://{plain}"), "TLS fails: "),
        (("-h", f"amqps://{trusting}", "-sni", "elsewhere"), "TLS fails: "),
        (("-h", f"amqps://{plain}?cacertfile=/missing"), "/missing"),
    ):
        done = perf(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert said in done.stderr
