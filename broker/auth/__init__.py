"""Authentication and authorization of clients."""
