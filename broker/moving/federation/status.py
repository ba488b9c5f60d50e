"""The status of a federation link for operators: its state, the reason, and since when.

The states are RabbitMQ's (`rabbit_federation_status`): a link is `starting` until messages can
arrive, then `running`, and `error`, with a reason, while it waits to be started again. A link is
known by an id of eight hexadecimal digits, which stays while the names of its ends stay.
"""

import msgspec

STARTING, RUNNING, ERROR = "starting", "running", "error"
EXCHANGE, QUEUE = "exchange", "queue"


class LinkStatus(msgspec.Struct, frozen=True):
    """The status of one link.

    kind: `exchange` or `queue`. name: the federated exchange or queue. upstream: the name of the
    upstream. upstream_name: the exchange or queue there. since_s: the time of the last change, in
    seconds since the epoch. uri: the one in use, or last or next tried, without user and password.
    error: why it does not run. local_connection: the name of its connection to this node; empty
    unless it runs. consumer_tag: the tag of a federated queue's consumer upstream. forwarded:
    messages since it started.
    """

    link_id: str
    kind: str
    vhost: str
    name: str
    upstream: str
    upstream_name: str
    state: str
    since_s: float
    uri: str
    error: str = ""
    local_connection: str = ""
    consumer_tag: str = ""
    forwarded: int = 0
