"""Links between nodes: one TCP connection per pair of nodes, which all services share."""
