"""The log of one stream on one node: segment files of chunks, their indexes, and retention."""
