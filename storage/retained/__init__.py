"""Retained messages on disk: the file, the order of topics, and how copies are merged."""
