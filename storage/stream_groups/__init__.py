"""What a node stores of the groups of its streams: chunks in segments, the rest in its log."""
