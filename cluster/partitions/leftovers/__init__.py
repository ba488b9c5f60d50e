"""Files that keep the declarations and messages that a node discards for other nodes' metadata."""
