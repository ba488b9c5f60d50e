"""Retained messages: the last message of each MQTT topic, for clients that subscribe later."""
