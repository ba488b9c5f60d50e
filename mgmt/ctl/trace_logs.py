"""Switches trace logs on and off: traces to files in the format `log`, for `leveret analyze`.

They are traces of the HTTP API (docs/operate/tracing.md). A virtual host has at most one, so the
commands need no name, as trace_on and trace_off of the firehose.
"""

from typing import Any

from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import DATA_ERROR, bad_argument, failure
from leveret.mgmt.ctl.users import require_vhost

VHOSTS = "Virtual hosts"
LOG, NAME, EVERYTHING = "log", "log", "#"
COLUMNS = ("vhost", "name", "pattern", "sample", "payload", "written", "lost", "problem")
WHERE = (
    "Its files are in the directory that tracing.dir names, by default 'trace' in the data "
    "directory: see 'leveret analyze --help'."
)


def _log_of(ctl: CommandRun) -> dict[str, Any] | None:
    """Return the running log of the virtual host. Raises CtlError if there is no such vhost."""
    require_vhost(ctl, ctl.vhost)
    traces = ctl.client.get("traces", ctl.vhost)
    return next((trace for trace in traces if trace["format"] == LOG), None)


@command("trace_log_on", "[--vhost <vhost>] [--pattern <pattern>] [--sample <number>] "
         "[--with-payloads]", "Switches the trace log of a virtual host on, for 'leveret analyze'",
         VHOSTS, "pattern=", "sample=#", "with-payloads")  # fmt: skip
def trace_log_on(ctl: CommandRun) -> None:
    """Begin a trace log."""
    sample = ctl.options.get("sample", 1)
    if sample < 1:
        raise bad_argument("the sample is 1 for every message, or N for one message in N")
    ctl.banner(f'Starting the trace log of vhost "{ctl.vhost}" ...')
    running = _log_of(ctl)
    if running is not None:
        raise failure(
            f"The trace log of vhost '{ctl.vhost}' is already on (name '{running['name']}', "
            f"pattern '{running['pattern']}'): switch it off first, with trace_log_off",
            DATA_ERROR,
        )
    body = {
        "format": LOG, "pattern": ctl.options.get("pattern", EVERYTHING), "sample": sample,
        "payload": "base64" if ctl.options.get("with_payloads") else "none",
    }  # fmt: skip
    ctl.client.put("traces", ctl.vhost, NAME, body=body)
    text = f"Trace log enabled for vhost {ctl.vhost}. {WHERE}"
    ctl.value(text, text)


@command("trace_log_off", "[--vhost <vhost>]", "Switches the trace log of a virtual host off; its "
         "files stay", VHOSTS)  # fmt: skip
def trace_log_off(ctl: CommandRun) -> None:
    """End the trace log."""
    ctl.banner(f'Stopping the trace log of vhost "{ctl.vhost}" ...')
    running = _log_of(ctl)
    if running is None:
        raise failure(f"The trace log of vhost '{ctl.vhost}' is not on", DATA_ERROR)
    ctl.client.delete("traces", ctl.vhost, running["name"])
    text = f"Trace log disabled for vhost {ctl.vhost}. Records in its files: {running['written']}"
    ctl.value(text, text)


@command("list_trace_logs", "[--no-table-headers]", "Lists the trace logs that are on", VHOSTS)
def list_trace_logs(ctl: CommandRun) -> None:
    """List running trace logs, with the records that they have written and lost."""
    ctl.banner("Listing trace logs ...")
    found = [trace for trace in ctl.client.get("traces") if trace["format"] == LOG]
    ctl.rows([[trace[name] for name in COLUMNS] for trace in found], COLUMNS, empty_line=True)
