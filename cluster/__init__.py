"""Several nodes that act as one broker. See docs/design/cluster.md."""
