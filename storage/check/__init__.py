"""Checking and repairing a store that is not open."""
