"""The report: sums of the tables, findings and charts of these, and the page."""
