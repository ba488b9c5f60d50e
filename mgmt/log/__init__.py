"""The log of a node: levels, the forms of lines, and the outputs that they are written to."""
