"""The samples that a request asks for: `lengths_age=60&lengths_incr=5` and similar parameters.

As in RabbitMQ (`rabbit_mgmt_util`), a parameter that is missing or not a number requests no
samples, and invalid numbers are an error, even for samples that the answer does not have.
"""

import re

from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.statistics.series import SampleWindow

KINDS = ("lengths", "msg_rates", "data_rates", "node_stats")
SAMPLES_MAX = 500
NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def window(call: Call, kind: str) -> SampleWindow | None:
    """The window of one of the `KINDS`. Raises 400 if that of any kind is invalid."""
    return {one: _window(call, one) for one in KINDS}[kind]


def _window(call: Call, kind: str) -> SampleWindow | None:
    texts = call.query(f"{kind}_age"), call.query(f"{kind}_incr")
    if not all(NUMBER.fullmatch(text) for text in texts):
        return None
    age, increment = map(int, texts)
    if age <= 0 or increment <= 0 or age // increment > SAMPLES_MAX:
        raise bad_request(f"Invalid range parameters: age {age}, incr {increment}")
    return SampleWindow(age, increment)


def both(call: Call) -> tuple[SampleWindow | None, SampleWindow | None]:
    """The windows of messages and of lengths."""
    return window(call, "msg_rates"), window(call, "lengths")
