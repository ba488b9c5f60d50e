"""How long tests wait for what must come about.

It is no limit on speed: only what never comes takes so long, on a machine however busy.
"""

PATIENCE_SECONDS = 120
