"""One node's use of a queue in a group, wherever the leader is: commands, sessions, time limits."""
