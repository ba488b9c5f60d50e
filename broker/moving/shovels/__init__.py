"""Shovels: they move messages from a queue of one server to another server."""
