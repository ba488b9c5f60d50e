"""Converts a classic queue to a quorum queue in place: docs/design/conversion.md."""
