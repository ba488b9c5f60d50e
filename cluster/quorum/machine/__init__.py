"""The quorum queue as a state machine. All members of its group apply the same entries.

Pure: no clock, no randomness, no input or output. Its promises are in docs/design/quorum-queues.md.
"""
