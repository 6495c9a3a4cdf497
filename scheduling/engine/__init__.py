"""The scheduling engine: which queued jobs start, where, on which cards, and why the others wait.

A pure function over a snapshot. Import from here and from `scheduling.engine.model`; the rest is
inside.
"""

from scheduling.engine.config import EngineConfig, Explain
from scheduling.engine.cycle import never_fits, run_cycle
from scheduling.engine.plugins.registry import ConfigError
from scheduling.engine.state.codec import CodecError, canonical, decode, encode
from scheduling.engine.state.delta import (
    AllocationGone,
    AllocationPut,
    Change,
    Delta,
    FlavorPut,
    JobGone,
    JobPut,
    NodeGone,
    NodePut,
    QueuePut,
    QuotaPut,
)
from scheduling.engine.state.snapshot import Snapshot, SnapshotError
from scheduling.engine.state.statement import Statement, StatementError

__all__ = [
    "AllocationGone",
    "AllocationPut",
    "Change",
    "CodecError",
    "ConfigError",
    "Delta",
    "EngineConfig",
    "Explain",
    "FlavorPut",
    "JobGone",
    "JobPut",
    "NodeGone",
    "NodePut",
    "QueuePut",
    "QuotaPut",
    "Snapshot",
    "SnapshotError",
    "Statement",
    "StatementError",
    "canonical",
    "decode",
    "encode",
    "never_fits",
    "run_cycle",
]
