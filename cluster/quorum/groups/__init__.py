"""The service of a node that runs its members of groups, and finds their leaders for clients."""
