"""Moves a running broker's definitions, messages and programs to another broker.

`carrying_over` says what can be imported, `links` which shovel each queue needs, `brokers` asks
both brokers, `state` keeps the step durably, `migration` carries the steps out, and `table` shows
what is left where.
"""
