"""`leveret perf` against a node: it counts right, and says what goes wrong."""

import json
import subprocess
import sys


def perf(*arguments, timeout=60):
    return subprocess.run(
        [sys.executable, "-m", "mgmt.perf.main", *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def summary(node, vhost, *arguments):
    uri = f"amqp://guest:guest@127.0.0.1:{node.port}/{vhost}"
    done = perf("--uri", uri, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["summary"]


def test_every_message_is_published_confirmed_and_consumed(node, vhost):
    found = summary(node, vhost, "-C", 5000, "-D", 5000, "-c", 500, "-A", 10, "-q", 100, "-s", 200)
    assert (found["sent"], found["confirmed"], found["received"]) == (5000, 5000, 5000)
    latency = found["latency_us"]
    assert 0 < latency["min"] <= latency["median"] <= latency["p99"] <= latency["max"]
    assert found["confirm_latency_us"]["median"] > 0


def test_several_producers_consumers_and_queues(node, vhost):
    found = summary(
        node, vhost, "-x", 3, "-y", 3, "-X", 2, "-C", 1000, "-D", 2000, "-a", "-qp", "perf-%d",
        "-qpf", 1, "-qpt", 3, "-ad", "false",
    )  # fmt: skip
    assert (found["sent"], found["received"]) == (6000, 6000)
    names = {queue["name"] for queue in node.get(f"queues/{vhost}")}
    assert names == {"perf-1", "perf-2", "perf-3"}


def test_large_persistent_messages_on_a_durable_queue(node, vhost):
    found = summary(
        node, vhost, "-C", 50, "-D", 50, "-c", 10, "-s", 300_000, "-f", "persistent", "-u", "dq"
    )
    assert (found["confirmed"], found["received"]) == (50, 50)
    assert node.get(f"queues/{vhost}/dq")["durable"]


def test_a_rate_is_kept(node, vhost):
    found = summary(node, vhost, "-r", 500, "-z", 2, "-a")
    assert 700 < found["sent"] <= 1100


def test_nacks_returns_and_transactions(node, vhost):
    node.put(f"queues/{vhost}/short", {"arguments": {"x-max-length": 10,
                                                     "x-overflow": "reject-publish"}})  # fmt: skip
    found = summary(node, vhost, "-y", 0, "-C", 100, "-c", 100, "-u", "short", "-p")
    assert (found["confirmed"], found["nacked"]) == (10, 90)
    found = summary(
        node, vhost, "-y", 0, "-C", 20, "-f", "mandatory", "-p", "-k", "nowhere", "-c", 10
    )
    assert found["returned"] == 20
    found = summary(node, vhost, "-C", 100, "-D", 100, "-m", 10, "-n", 5)
    assert (found["sent"], found["received"]) == (100, 100)


def test_lines_are_printed_as_perftest_prints_them(node, vhost, tmp_path):
    uri = f"amqp://guest:guest@127.0.0.1:{node.port}/{vhost}"
    path = tmp_path / "values.csv"
    done = perf("--uri", uri, "-z", 2, "-r", 200, "-a", "-d", "run", "-o", path)
    assert "id: run, time: " in done.stdout
    assert "id: run, receiving rate avg: " in done.stdout
    assert path.read_text().startswith("id,time (s),sent,")


def test_what_goes_wrong_is_told(node):
    done = perf("--uri", "amqp://127.0.0.1:1/", "-z", 1)
    assert (done.returncode, "cannot connect" in done.stderr) == (1, True)
    uri = f"amqp://guest:wrong@127.0.0.1:{node.port}/"
    done = perf("--uri", uri, "-z", 1)
    assert (done.returncode, "ACCESS_REFUSED" in done.stderr) == (1, True)
    done = perf("--uri", uri.replace("wrong", "guest"), "-p", "-u", "missing", "-z", 5)
    assert (done.returncode, "NOT_FOUND" in done.stderr) == (1, True)
    assert perf("-x", 0, "-y", 0).returncode == 2
    assert perf("--bogus").returncode == 2
