"""This package starts pending jobs: it orders the heads of queues, evaluates them one after the other, and
records a decision for each."""
