"""Plugins: what they are, which ones there are, and which of them a node has enabled."""
