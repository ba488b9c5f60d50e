"""A node of a cluster put together from its parts."""
