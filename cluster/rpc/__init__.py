"""Requests from one node to another, and their answers."""
