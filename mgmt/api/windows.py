"""Which samples a request asks for: `lengths_age=60&lengths_incr=5` and the like."""

from mgmt.api.call import Call
from mgmt.api.errors import bad_request
from mgmt.statistics.series import Window

SAMPLES_MAX = 10_000


def window(call: Call, kind: str) -> Window | None:
    """kind: lengths, msg_rates, data_rates or node_stats. Raises 400 for what is no number."""
    age = call.number(f"{kind}_age", 0)
    increment = call.number(f"{kind}_incr", 0)
    if age <= 0 or increment <= 0:
        return None
    if age // increment > SAMPLES_MAX:
        raise bad_request(f"{kind}_age / {kind}_incr are more than {SAMPLES_MAX} samples")
    return Window(age, increment)


def both(call: Call) -> tuple[Window | None, Window | None]:
    """Of messages and of lengths."""
    return window(call, "msg_rates"), window(call, "lengths")
