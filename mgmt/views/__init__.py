"""How things look in the HTTP API: the only place where the broker's objects become JSON."""
