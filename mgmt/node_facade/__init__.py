"""Management's interface to a running node: objects, their figures, and a few acts.

`NodeFacade` (facade.py) returns plain data (facts.py); connections and channels, which have no
index by name, are objects that return plain data (clients.py). All other modules of management
reach the broker's objects only through this package.
"""
