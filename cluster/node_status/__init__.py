"""The state that nodes of a cluster send each other: features, counts, alarms, maintenance."""
