"""Publishing dead letters through the exchanges of a virtual host."""
