"""What a node alone had when it takes the metadata of others: written to a file before it goes."""
