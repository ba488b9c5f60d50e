"""WebSockets (RFC 6455) that stand in for the sockets of MQTT and STOMP."""
