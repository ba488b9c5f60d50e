"""Peer discovery: how a new node finds the nodes of its cluster, and who forms a cluster.

The one who starts a node calls, in this order:

1. `backends.discovery_of(config, own)` makes the backend that is configured. It raises SettingError
   for a setting that cannot be followed, and makes no connection.
2. The links to other nodes listen, and their question "what are you?" is answered with
   `Forming.state_for(peer)`.
3. A node that belongs to no cluster yet (its data directory is new or was reset) awaits
   `Forming.run()`. That takes the startup lock of the backend or waits for the random delay, lists
   the nodes, asks them through `Peers` what they are, and joins one or forms a cluster; then it
   registers the node and gives the lock back. It raises DiscoveryError if the node must not start.
   A node that belongs to a cluster does not ask anybody: it calls `Presence.start()` only.
4. While the node runs, `Presence` renews its registration. Every `CleanUp.interval_s` seconds the
   one who started the node awaits `CleanUp.step(members, running)` and removes the nodes that it
   returns from the cluster.
5. On an orderly stop: `Presence.stop()`, which removes the registration, then `Discovery.close()`.

formation.py decides and node_names.py makes names, without I/O.
"""
