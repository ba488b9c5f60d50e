"""Messages on disk and in memory, and the metadata database. It imports no other layer."""
