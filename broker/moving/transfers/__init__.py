"""What shovels and federation links share: messages that go from one channel to another."""
