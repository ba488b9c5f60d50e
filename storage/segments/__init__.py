"""Segments: the files of paged messages."""
