"""The store put together: opening, restoring, reclaiming space."""
