"""Federation from an upstream to the nodes of a cluster, and what the upstream sees of it."""

import json


def set_upstream(node, upstream):
    """Make a broker the federation upstream `u`."""
    value = {"uri": f"amqp://guest:guest@127.0.0.1:{upstream.port}", "reconnect-delay": 1}
    node.ctl("set_parameter", "federation-upstream", "u", json.dumps(value))


def links_at(upstream):
    """The addresses from which links are connected."""
    return [
        one["name"]
        for one in upstream.get("connections")
        if "Federation link" in one.get("user_provided_name", "")
    ]
