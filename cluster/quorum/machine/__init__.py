"""The quorum queue as a state machine, which all members of its group apply alike.

Pure: no clock, no randomness, no input or output. docs/design/quorum-queues.md has its promises.
"""
