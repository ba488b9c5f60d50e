"""Everything an operator touches: the command line first of all."""
