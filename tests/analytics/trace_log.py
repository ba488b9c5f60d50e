"""Small handwritten trace logs in the broker's format."""

import base64
import gzip
import json
from datetime import UTC, datetime
from urllib.parse import quote

NODE = "leveret@host"
START_US = 1_772_373_600_000_000
"""2026-03-01 14:00:00 UTC."""
FIRST = (START_US // 1_000_000) << 32
"""The first message number of a node that started then."""
SECOND, HOUR = 1_000_000, 3_600_000_000
WHO = {"connection": "127.0.0.1:50000 -> 127.0.0.1:5672", "channel": 1, "user": "guest"}


class TraceLog:
    """The records of one vhost on one node; `write` stores them in the broker's layout."""

    def __init__(self, vhost="/", sample=1, version=1, node=NODE):
        self.vhost, self.node = vhost, node
        self.records = []
        self._sample, self._version = sample, version
        self._tags = 0

    def add(self, event, at_us, **fields):
        """Add a record. at_us: time since the start."""
        where = {"time_us": START_US + at_us, "node": self.node, "vhost": self.vhost}
        self.records.append({"event": event, **where, **fields})

    def publish(self, at_us, number, queues, exchange="orders", keys=("new",), body=None,
                properties=None, size=None):  # fmt: skip
        more = {} if body is None else {"body": base64.b64encode(body).decode()}
        self.add(
            "publish", at_us, **WHO, message=number, exchange=exchange, routing_keys=list(keys),
            queues=list(queues), body_size=len(body or b"") if size is None else size,
            properties=properties or {}, **more,
        )  # fmt: skip

    def deliver(self, at_us, number, queue, consumer="ctag-1", no_ack=False, redelivered=False,
                properties=None, exchange="orders", keys=("new",)):  # fmt: skip
        self._tags += 1
        self.add(
            "deliver", at_us, **WHO, message=number, queue=queue, exchange=exchange,
            routing_keys=list(keys), consumer_tag=consumer, delivery_tag=self._tags,
            redelivered=redelivered, no_ack=no_ack, body_size=0, properties=properties or {},
        )  # fmt: skip

    def ack(self, at_us, number, queue):
        self.add("ack", at_us, **WHO, message=number, queue=queue, delivery_tag=self._tags)

    def reject(self, at_us, number, queue, requeue=False):
        self.add("reject", at_us, **WHO, message=number, queue=queue,
                 delivery_tag=self._tags, requeue=requeue)  # fmt: skip

    def dead_letter(self, at_us, number, queue, reason, new, queues, exchange="dlx"):
        self.add("dead_letter", at_us, message=number, queue=queue, reason=reason,
                 new_message=new, exchange=exchange, routing_keys=["new"],
                 queues=list(queues))  # fmt: skip

    def write(self, directory):
        """Write a file for each hour, and return their paths."""
        hours = {}
        for record in self.records:
            hours.setdefault(record["time_us"] // HOUR, []).append(record)
        return [self._write_hour(directory, hour, records) for hour, records in hours.items()]

    def _write_hour(self, directory, hour, records):
        begins = datetime.fromtimestamp(hour * 3600, UTC)
        partition = f"vhost={quote(self.vhost, safe='')}/date={begins:%Y-%m-%d}/hour={begins:%H}"
        folder = directory / partition
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.node}-{records[0]['time_us']}-1.jsonl.gz"
        path.write_bytes(b"".join(map(gzip.compress, self.members(records))))
        return path

    def members(self, records, lines=100):
        """Return the lines in groups, each as a gzip member."""
        header = {
            "event": "header", "version": self._version, "node": self.node, "vhost": self.vhost,
            "time_us": records[0]["time_us"], "sample": self._sample,
        }  # fmt: skip
        written = [json.dumps(one, separators=(",", ":")) + "\n" for one in [header, *records]]
        for at in range(0, len(written), lines):
            yield "".join(written[at : at + lines]).encode()
