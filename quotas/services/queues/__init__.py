"""Opening, changing and deleting queues."""
