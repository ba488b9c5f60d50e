"""Sessions: a client's operations in a virtual host, independent of the protocol."""
