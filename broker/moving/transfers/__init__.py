"""The common parts of shovels and federation links: messages go from one channel to another."""
