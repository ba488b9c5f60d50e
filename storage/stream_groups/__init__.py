"""The stored data of a node's stream groups: chunks in segments, the rest in the node's log."""
