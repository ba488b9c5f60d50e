"""Links between nodes: one TCP connection for each pair of nodes, shared by all services."""
