"""The wire: frames, methods, content and field tables, with no I/O and no state of a broker."""
