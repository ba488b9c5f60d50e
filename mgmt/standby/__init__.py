"""The standby of another cluster: it follows the upstream's definitions until it is promoted.

`comparing` finds what differs, `safety` what is not done without an operator, `upstream` gets the
definitions, `applying` declares what differs, `follower` does all of it again and again, and
`actions` are what operators ask for.
"""
