"""Base classes of every table, and the tables that the foundation itself owns."""

from foundation.models.audit import AuditRecord, AuditSeal
from foundation.models.base import BaseModel, Leased, RefusingManager, UnscopedQuery, Versioned
from foundation.models.processes import Heartbeat, Hint, IdempotencyKey, Installation, Measure

__all__ = [
    "AuditRecord",
    "AuditSeal",
    "BaseModel",
    "Heartbeat",
    "Hint",
    "IdempotencyKey",
    "Installation",
    "Leased",
    "Measure",
    "RefusingManager",
    "UnscopedQuery",
    "Versioned",
]
