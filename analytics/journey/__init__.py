"""The journey of a message: finds its records in the logs, and prints them as text."""
