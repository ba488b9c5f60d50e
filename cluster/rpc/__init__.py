"""Requests of one node to another, and their answers."""
