"""Where logins and permissions come from, other than the node's own users and permissions."""
