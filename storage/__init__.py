"""Messages on disk and in memory, and the metadata database. Imports nothing else of the project."""
