"""Virtual hosts: their exchanges, queues and bindings, and publishing into them."""
