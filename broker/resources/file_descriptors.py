"""The number of descriptors that this process may have open, and the number for sockets.

The operating system gives a new descriptor the lowest free number. So if no socket is kept whose
number is `sockets_max` or higher, all numbers from there on are left for files: the store can open
its files however many clients connect. This needs no count of open descriptors, and covers sockets
of every kind, including those of unfinished TLS handshakes.
"""

import os
import resource

RESERVED, SOCKETS_SHARE = 100, 0.9
"""RabbitMQ (`file_handle_cache`) reserves 100 descriptors for itself, and a tenth of the others
plus two for files."""


def descriptor_limit() -> int:
    """The number of descriptors that the process may have open: `ulimit -n`."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def sockets_max(limit: int) -> int:
    """The number of descriptors that sockets may take, of `limit`: RabbitMQ's `sockets_total`.

    At least half: with fewer than 250 RabbitMQ would leave almost none.
    """
    return max(limit // 2, int((limit - RESERVED) * SOCKETS_SHARE) - 2)


def open_descriptors() -> int:
    """The number of descriptors that the process has open.

    Linux 6.2 and later gives their number as the size of the directory. Listing 10,000 takes 20 ms.
    """
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        # Not Linux: the number is not known.
        return 0
