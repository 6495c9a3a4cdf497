from quotas.models.queue import AllocationMode, Queue, QueueFlavor, StopPolicy, Strategy
from quotas.models.quota import LedgerEntry, Quota, QuotaNode

__all__ = [
    "AllocationMode",
    "LedgerEntry",
    "Queue",
    "QueueFlavor",
    "Quota",
    "QuotaNode",
    "StopPolicy",
    "Strategy",
]
