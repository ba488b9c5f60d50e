"""Whether the machine at the other end of a socket still answers, as the kernel knows.

After something was sent, a living machine acknowledges it within a round trip, whatever its program
does. A machine that is off, or cut off, does not: its segments stay unacknowledged. The kernel of
Linux tells both in TCP_INFO. A proxy between node and client answers for its client.

The machine of a client that does not read may take no more segments, but it answers each of the
kernel's repetitions. So the last answer is never older than the time between two of these, which
the kernel doubles each time.
"""

import asyncio
import socket
import struct
from typing import Final

TCP_INFO: Final = getattr(socket, "TCP_INFO", None)
_FIELDS: Final = struct.Struct("=8xI12xI28xI")
"""Of the kernel's `struct tcp_info`: tcpi_rto, the microseconds between repetitions; tcpi_unacked,
in segments; tcpi_last_ack_recv, the milliseconds since the last acknowledgement."""


def is_unanswered(transport: asyncio.BaseTransport, since_ms: int) -> bool:
    """Whether sent data is unacknowledged, and the last acknowledgement is `since_ms` ago or more.

    False where the kernel does not say so, as for a WebSocket or a socket of another family.
    """
    found = transport.get_extra_info("socket")
    if TCP_INFO is None or found is None or found.fileno() < 0:
        return False
    if found.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    duplicate = socket.socket(fileno=socket.dup(found.fileno()))
    try:
        raw = duplicate.getsockopt(socket.IPPROTO_TCP, TCP_INFO, _FIELDS.size)
    except OSError:
        return False
    finally:
        duplicate.close()
    repetition_us: int
    unacknowledged: int
    last_ack_ms: int
    repetition_us, unacknowledged, last_ack_ms = _FIELDS.unpack(raw.ljust(_FIELDS.size, b"\0"))
    return unacknowledged > 0 and last_ack_ms >= max(since_ms, repetition_us // 1000)
