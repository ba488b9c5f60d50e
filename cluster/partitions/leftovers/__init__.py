"""Definitions and messages that a node discards for the metadata of others: kept in a file."""
