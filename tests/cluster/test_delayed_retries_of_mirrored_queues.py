"""Messages of a mirrored queue that wait for their retry, when the leader's node is killed."""

import signal

from tests.cluster.mirrored import consumed, declared, publish, wait_until_synchronised

RETRIES = (
    "set_policy", "ha", "^mirrored",
    '{"ha-mode": "all", "delayed-retry-type": "returned", "delayed-retry-min": 86400000}',
)  # fmt: skip


def test_the_next_leader_knows_what_waits(mirroring):
    a, b, c = mirroring
    a.ctl(*RETRIES)
    channel = declared(a)
    wait_until_synchronised(a, b, c)
    publish(channel, b"waits", b"behind")
    method, _, body = channel.basic_get("mirrored")
    assert body == b"waits"
    channel.basic_nack(method.delivery_tag)
    publish(channel, b"last")
    a.stop(signal.SIGKILL)
    assert [body for body, _ in consumed(b, 2)] == [b"behind", b"last"]
    row = b.ctl("list_queues", "messages_delayed", "messages_ready")
    assert "1\t0" in row
    b.ctl("set_policy", "ha", "^mirrored", '{"ha-mode": "all"}')
