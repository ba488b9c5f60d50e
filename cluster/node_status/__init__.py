"""What the nodes of a cluster tell each other about themselves."""
