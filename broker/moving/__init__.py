"""Moving messages between brokers: shovels, federation, and the client they use."""
