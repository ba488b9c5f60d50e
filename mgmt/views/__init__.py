"""The JSON of the HTTP API: views of the broker's objects, with RabbitMQ's fields."""
