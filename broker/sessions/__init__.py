"""Sessions: what a client does in a virtual host, in whatever protocol."""
