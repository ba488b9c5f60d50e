"""Plugins: their interface, those that are installed, and those that a node has enabled."""
