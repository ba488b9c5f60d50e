"""Messages and their stored forms."""
