"""The wire format of AMQP 1.0 messages: types and sections. No I/O, no state."""
