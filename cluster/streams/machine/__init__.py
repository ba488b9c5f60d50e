"""The state of a stream: what the chunks of its log have made of it. Pure."""
