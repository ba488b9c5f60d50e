"""What management asks of a running node: objects, their figures, and a few acts.

`NodeFacade` (facade.py) answers with plain data (facts.py); connections and channels, which have
no index by their names, answer for themselves (clients.py). All other modules of management see the
broker's objects only here.
"""
