"""What the rest of the node knows of the store."""
