"""Moves a running broker's definitions, messages and programs to another broker.

`plan` says what a migration will do: `carrying_over` what can be imported, `notes` what becomes of
what it finds. `links` says which shovel each queue needs, `look` what is where, `brokers` and
`other_broker` ask both brokers, `state` keeps the step durably, `migration` carries the steps out,
and `progress` and `table` show them.
"""
