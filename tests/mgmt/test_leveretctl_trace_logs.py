"""`leveretctl trace_log_on` and `trace_log_off`: logs of messages for `leveret analyze`."""

import json

import pytest

from tests.mgmt.ctl_command import Ctl


@pytest.fixture
def ctl(node):
    return Ctl(node)


def test_a_log_is_switched_on_and_off(ctl, node, vhost):
    shown = ctl("trace_log_on", "-p", vhost)
    assert shown.startswith(f'Starting the trace log of vhost "{vhost}" ...\nTrace log enabled for')
    assert "'trace' in the data directory" in shown
    trace = node.get(f"traces/{vhost}/log")
    assert (trace["format"], trace["pattern"], trace["sample"], trace["payload"]) == (
        "log", "#", 1, "none"
    )  # fmt: skip
    node.put(f"queues/{vhost}/q")
    node.publish(vhost, "q", "x")
    node.wait_until(lambda: node.get(f"traces/{vhost}/log")["written"])
    rows = json.loads(ctl("list_trace_logs", "--formatter", "json"))
    assert [row["name"] for row in rows if row["vhost"] == vhost] == ["log"]
    assert f"Trace log disabled for vhost {vhost}. Records in its files: " in ctl(
        "trace_log_off", "-p", vhost
    )
    assert node.request("GET", f"traces/{vhost}/log").status == 404
    files = f"trace/vhost={vhost}/**/*.trace.gz"
    node.wait_until(lambda: list(node.data_dir.glob(files)), "its file is complete")


def test_its_options(ctl, node, vhost):
    ctl("trace_log_on", "-p", vhost, "--pattern", "*.q", "--sample", "10", "--with-payloads")
    trace = node.get(f"traces/{vhost}/log")
    assert (trace["pattern"], trace["sample"], trace["payload"]) == ("*.q", 10, "base64")
    assert ctl.fails("trace_log_on", "-p", vhost, "--sample", "0")[0] == 65


def test_a_log_that_is_on_or_off_already(ctl, node, vhost):
    code, error = ctl.fails("trace_log_off", "-p", vhost)
    assert (code, error) == (65, f"Error:\nThe trace log of vhost '{vhost}' is not on\n")
    node.put(f"traces/{vhost}/mine", {"format": "log", "pattern": "#"})
    code, error = ctl.fails("trace_log_on", "-p", vhost)
    assert (code, "is already on (name 'mine', pattern '#'): switch it off" in error) == (65, True)
    ctl("trace_log_off", "-p", vhost)
    assert node.get(f"traces/{vhost}") == []


@pytest.mark.parametrize("command", ["trace_log_on", "trace_log_off"])
def test_a_vhost_that_does_not_exist(ctl, command):
    code, error = ctl.fails(command, "-p", "nosuch")
    assert (code, error) == (65, "Virtual host 'nosuch' does not exist\n")
