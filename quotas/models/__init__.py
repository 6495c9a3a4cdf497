from quotas.models.queue import (
    AllocationMode,
    PreemptOthers,
    PreemptWithin,
    Preference,
    Queue,
    QueueFlavor,
    StopPolicy,
    Strategy,
    WhenCan,
)
from quotas.models.quota import LedgerEntry, Quota, QuotaNode

__all__ = [
    "AllocationMode",
    "LedgerEntry",
    "PreemptOthers",
    "PreemptWithin",
    "Preference",
    "Queue",
    "QueueFlavor",
    "Quota",
    "QuotaNode",
    "StopPolicy",
    "Strategy",
    "WhenCan",
]
