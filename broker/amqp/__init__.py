"""The wire format: frames, methods, content and field tables. No I/O and no state of a broker."""
