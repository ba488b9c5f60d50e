"""The services of a node that its connections and channels use."""
