"""Parts of queues: who consumes, when messages expire, who is counted and held back."""
