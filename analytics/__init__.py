"""Analytics: what days of trace logs say, as tables that PySpark makes of them."""
