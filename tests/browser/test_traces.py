"""The page of traces: adding and stopping a trace, downloading and deleting its file."""


def test_a_trace_is_added_seen_and_stopped_and_its_file_deleted(browser, node, vhost):
    browser.go("admin", "traces")
    browser.see_title("Tracing")
    panel = browser.panel("Add a new trace")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "mine", panel)
    browser.choose("Format", "json", panel)
    browser.type("Max payload bytes", "10", panel)
    browser.press("Add trace", panel)
    browser.see("Trace mine added")
    assert node.get(f"traces/{vhost}/mine")["max_payload_bytes"] == 10
    browser.see_in(browser.panel("All traces"), "running")
    browser.see_in(browser.panel("Trace log files"), "mine.log")
    browser.press("Download mine.log")
    browser.see("mine.log downloaded")
    browser.see_not("mine.log downloaded")
    browser.press("Stop trace mine")
    browser.confirm("Stop")
    browser.see("Trace stopped")
    assert node.get(f"traces/{vhost}") == []
    browser.press("Delete mine.log")
    browser.confirm("Delete")
    browser.see("File deleted")
    browser.see("No files.")


def test_a_log_is_added_and_what_cannot_be_is_said(browser, node, vhost):
    browser.go("admin", "traces")
    panel = browser.panel("Add a new trace")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "days", panel)
    browser.choose("Format", "log", panel)
    browser.type("Sample", "100", panel)
    browser.check("Payloads in the log", panel)
    browser.press("Add trace", panel)
    browser.see("Trace days added")
    shown = node.get(f"traces/{vhost}/days")
    assert (shown["format"], shown["sample"], shown["payload"]) == ("log", 100, "base64")
    browser.see_in(browser.panel("All traces"), "1 in 100")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "more", panel)
    browser.choose("Format", "log", panel)
    browser.press("Add trace", panel)
    browser.see("the vhost already has a log")
    assert node.delete(f"traces/{vhost}/days").status == 204
