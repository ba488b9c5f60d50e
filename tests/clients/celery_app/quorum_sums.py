"""A Celery application with quorum queues, and delays that quorum queues make."""

import os

from celery import Celery

app = Celery("quorum_sums", broker=os.environ["TEST_BROKER_URL"], backend="rpc://")
app.conf.task_default_queue_type = "quorum"
app.conf.task_default_exchange_type = "topic"
app.conf.worker_detect_quorum_queues = True
app.conf.task_acks_late = True
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(x, y):
    """Add two numbers."""
    return x + y


@app.task(bind=True, max_retries=3)
def succeed_the_second_time(self):
    """Fail once, and request a retry."""
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    return self.request.retries
