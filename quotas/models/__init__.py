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
from quotas.models.quota_change import QuotaChange, QuotaRevision, Source

__all__ = [
    "AllocationMode",
    "LedgerEntry",
    "PreemptOthers",
    "PreemptWithin",
    "Preference",
    "Queue",
    "QueueFlavor",
    "Quota",
    "QuotaChange",
    "QuotaNode",
    "QuotaRevision",
    "Source",
    "StopPolicy",
    "Strategy",
    "WhenCan",
]
