from quotas.models.budget import Budget, BudgetAction, GpuUse
from quotas.models.override import Override, OverrideAmount, OverrideState, PassedQuota
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
from quotas.models.quota_change import QuotaChange, QuotaChangeSource, QuotaRevision
from quotas.models.quota_key import FlavorKey, QuotaKey
from quotas.models.quota_request import OPEN_STATES, QuotaRequest, RequestState
from quotas.models.user_limit import UserLimit

__all__ = [
    "OPEN_STATES",
    "AllocationMode",
    "Budget",
    "BudgetAction",
    "FlavorKey",
    "GpuUse",
    "LedgerEntry",
    "Override",
    "OverrideAmount",
    "OverrideState",
    "PassedQuota",
    "PreemptOthers",
    "PreemptWithin",
    "Preference",
    "Queue",
    "QueueFlavor",
    "Quota",
    "QuotaChange",
    "QuotaChangeSource",
    "QuotaKey",
    "QuotaNode",
    "QuotaRequest",
    "QuotaRevision",
    "RequestState",
    "StopPolicy",
    "Strategy",
    "UserLimit",
    "WhenCan",
]
