"""A small Celery application, for a worker process of its own."""

import os

from celery import Celery

app = Celery("sums", broker=os.environ["TEST_BROKER_URL"], backend="rpc://")
app.conf.task_acks_late = True
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(x, y):
    """A sum."""
    return x + y


@app.task(bind=True, max_retries=3)
def succeed_the_second_time(self):
    """Fails once, and asks to be tried again."""
    if self.request.retries == 0:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def fail():
    """An error that the caller is to see."""
    raise ValueError("it failed")
