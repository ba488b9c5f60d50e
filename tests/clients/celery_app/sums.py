"""A small Celery application, for a worker process of its own."""

import os

from celery import Celery

app = Celery("sums", broker=os.environ["TEST_BROKER_URL"], backend="rpc://")
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
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def fail():
    """Raise an error for the caller."""
    raise ValueError("it failed")
