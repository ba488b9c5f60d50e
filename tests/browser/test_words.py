"""The pages name things as RabbitMQ's management UI does."""

PAGES = {
    (): ("Totals", "Queued messages", "Message rates", "Churn statistics", "Nodes",
         "Ports and contexts", "Export definitions", "Import definitions"),
    ("connections",): ("User name", "From client", "To client", "Connected at"),
    ("channels",): ("Prefetch", "Unconfirmed", "Deliver / get"),
    ("exchanges",): ("Message rate in", "Message rate out", "Add a new exchange"),
    ("exchanges", "/", "amq.topic"): (
        "Bindings from this exchange", "Add binding from this exchange",
        "Bindings to this exchange", "Publish message",
    ),
    ("queues",): ("Ready", "Unacked", "Total", "Incoming", "Deliver / get", "Add a new queue"),
    ("admin", "users"): ("Can access virtual hosts", "Has password", "Add a user"),
    ("admin", "users", "guest"): ("Can log in with password", "Configure regexp",
                                  "Update this user", "Delete this user"),
    ("admin", "vhosts"): ("Add a new virtual host", "From client"),
    ("admin", "policies"): ("Apply to", "Add / update a policy"),
    ("admin", "limits"): ("Virtual host limits", "User limits"),
    ("admin", "traces"): ("Tracing", "All traces", "Trace log files", "Add a new trace"),
}  # fmt: skip


def test_each_page_has_rabbitmqs_words(browser):
    for page, all_words in PAGES.items():
        browser.go(*page)
        for words in all_words:
            browser.see(words)
