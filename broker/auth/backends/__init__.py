"""Authentication and authorization backends: internal, HTTP, LDAP, OAuth 2, and their cache."""
