"""Files and directories: reads, writes and syncs on threads, and the space that is kept."""
