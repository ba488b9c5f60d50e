"""The samples that a request asks for: `lengths_age=60&lengths_incr=5` and similar parameters."""

from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.statistics.series import Window

SAMPLES_MAX = 10_000


def window(call: Call, kind: str) -> Window | None:
    """The window of a kind: lengths, msg_rates, data_rates or node_stats. Raises 400."""
    age = call.number(f"{kind}_age", 0)
    increment = call.number(f"{kind}_incr", 0)
    if age <= 0 or increment <= 0:
        return None
    if age // increment > SAMPLES_MAX:
        raise bad_request(f"{kind}_age / {kind}_incr are more than {SAMPLES_MAX} samples")
    return Window(age, increment)


def both(call: Call) -> tuple[Window | None, Window | None]:
    """The windows of messages and of lengths."""
    return window(call, "msg_rates"), window(call, "lengths")
