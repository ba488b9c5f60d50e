"""Starting a node of a cluster: first and later starts, joining and renaming."""
