"""The service that runs the members of groups on a node, and finds leaders for its clients."""
