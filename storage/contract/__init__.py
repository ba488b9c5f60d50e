"""The interface of the store for the rest of the node."""
