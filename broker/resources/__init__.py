"""Memory and disk: monitors, alarms, and the flow control of publishers."""
