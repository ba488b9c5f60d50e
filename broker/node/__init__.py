"""A node put together from its parts, and its start."""
