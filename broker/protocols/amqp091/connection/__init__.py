"""Connections: login, the dispatch of frames to channels, output, closing."""
