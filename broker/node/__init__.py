"""Puts a node together from its parts, and starts it."""
