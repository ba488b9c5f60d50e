"""The choice of the node that a queue lives on, or whose leader it has."""
