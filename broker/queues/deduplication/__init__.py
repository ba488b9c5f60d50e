"""Deduplication: which messages a queue or an exchange has had before, by an identifier in them."""
