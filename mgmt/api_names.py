"""Names that the HTTP API and leveretctl share: headers that RabbitMQ does not have, and a file.

They are here since leveretctl, as a client, imports nothing of the API.
"""

from typing import Final

LEFT_OUT: Final = "X-Leveret-Nodes-Left-Out"
"""The nodes of the cluster that did not answer in time, and whose objects are missing."""
NODE_HEADER: Final = "X-Leveret-Node"
"""On the control socket: the node of the cluster that is to answer."""
LINES: Final = "application/x-ndjson"
"""Of a list as lines of JSON: an object each, and last a list of the nodes that are left out."""
CONTROL_SOCKET: Final = "control.socket"
"""In the data directory: the socket for requests that may do everything."""
