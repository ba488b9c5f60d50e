"""The journey of a message: its records are searched in the logs, and told as a text."""
