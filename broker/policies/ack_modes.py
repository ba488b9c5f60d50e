"""When shovels and federation links acknowledge a message at its source: `ack-mode`."""

ON_CONFIRM, ON_PUBLISH, NO_ACK = "on-confirm", "on-publish", "no-ack"
