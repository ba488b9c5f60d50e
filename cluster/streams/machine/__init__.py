"""The state of a stream, which results from the chunks of its log. Pure."""
