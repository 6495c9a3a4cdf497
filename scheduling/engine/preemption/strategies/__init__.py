"""The order in which candidates are evicted: classical and fair preemption, by queue."""
