"""Peer discovery: how a new node finds the nodes of its cluster, and which node forms it.

The code that starts a node calls, in this order:

1. `backends.discovery_of(config, own)` makes the configured backend. It raises SettingError for an
   invalid setting, and opens no connection.
2. The links to other nodes listen, and requests for the node's state are answered with
   `Forming.state_for(peer)`.
3. A node that belongs to no cluster yet (its data directory is new or was reset) awaits
   `Forming.run()`. That takes the startup lock of the backend or waits for the random delay, lists
   the nodes, asks for their states through `Peers`, and joins one or forms a cluster; then it
   registers the node and releases the lock. It raises DiscoveryError if the node must not start. A
   node that belongs to a cluster asks no other node: it only calls `Presence.start()`.
4. While the node runs, `Presence` renews its registration. Every `CleanUp.interval_s` seconds the
   caller awaits `CleanUp.step(members, running)` and removes the nodes that it returns from the
   cluster.
5. On an orderly stop: `Presence.stop()`, which removes the registration, then `Discovery.close()`.

formation.py decides and node_names.py makes names, without I/O.
"""
