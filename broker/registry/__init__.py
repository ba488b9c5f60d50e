"""The declared objects of a node: the registry in memory, and the log that persists changes."""
