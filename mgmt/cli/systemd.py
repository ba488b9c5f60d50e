"""Tells systemd when the node is ready and when it stops, for units of Type=notify (sd_notify(3)).

Nothing is sent if systemd did not start the node, or if its unit has another type.
"""

import logging
import os
import socket
from typing import Final

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"

logger = logging.getLogger("leveret")


def tell_systemd(state: str) -> None:
    """Send a state to the socket that systemd names; the name of an abstract one begins with @."""
    name = os.environ.get(SOCKET_VARIABLE, "")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(state.encode(), address)
        except OSError as error:
            logger.warning("failed to tell systemd %s at %s: %s", state, name, error.strerror)
