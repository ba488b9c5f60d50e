"""The standby of another cluster: it follows the upstream's definitions until it is promoted.

`comparing` finds the differences, `safety` holds changes that need an operator, `upstream` fetches
the definitions, `applying` declares the differences, `follower` repeats all of this, and `actions`
are the operators' actions.
"""
