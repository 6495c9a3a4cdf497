"""The scheduling engine: which queued jobs start, where, on which cards, and why the others wait.

A pure function over a snapshot. Import from here and from `scheduling.engine.model`; the rest is
inside.
"""

from scheduling.engine.config import EngineConfig, Explain, cycle_order, resolve_config
from scheduling.engine.cycle import never_fits, run_cycle
from scheduling.engine.options import (
    ConsolidationOptions,
    FairSharing,
    Nominate,
    PreemptionOptions,
    ShareStrategy,
    UserShares,
    VictimOrder,
)
from scheduling.engine.order.orders import candidate_key
from scheduling.engine.placement.counting import stand_together
from scheduling.engine.placement.fragmentation import FragmentationGauge
from scheduling.engine.placement.placer import Seat
from scheduling.engine.placement.stream import Asked, PlacementStream
from scheduling.engine.placement.workload import Workload, WorkloadShape, typical, workload_of
from scheduling.engine.plugins.builtin import BUILTIN
from scheduling.engine.plugins.discovery import with_entry_points
from scheduling.engine.plugins.protocols import Candidate, Order
from scheduling.engine.plugins.registry import ConfigError
from scheduling.engine.plugins.sets import PluginSet
from scheduling.engine.state.codec import CodecError, canonical, decode, encode
from scheduling.engine.state.delta import (
    AllocationGone,
    AllocationPut,
    Change,
    ClaimGone,
    ClaimPut,
    Delta,
    FlavorPut,
    JobGone,
    JobPut,
    NodeGone,
    NodePut,
    QueuePut,
    QuotaPut,
    UsagePut,
)
from scheduling.engine.state.snapshot import Snapshot, SnapshotError
from scheduling.engine.state.statement import Statement, StatementError

__all__ = [
    "BUILTIN",
    "AllocationGone",
    "AllocationPut",
    "Asked",
    "Candidate",
    "Change",
    "ClaimGone",
    "ClaimPut",
    "CodecError",
    "ConfigError",
    "ConsolidationOptions",
    "Delta",
    "EngineConfig",
    "Explain",
    "FairSharing",
    "FlavorPut",
    "FragmentationGauge",
    "JobGone",
    "JobPut",
    "NodeGone",
    "NodePut",
    "Nominate",
    "Order",
    "PlacementStream",
    "PluginSet",
    "PreemptionOptions",
    "QueuePut",
    "QuotaPut",
    "Seat",
    "ShareStrategy",
    "Snapshot",
    "SnapshotError",
    "Statement",
    "StatementError",
    "UsagePut",
    "UserShares",
    "VictimOrder",
    "Workload",
    "WorkloadShape",
    "candidate_key",
    "canonical",
    "cycle_order",
    "decode",
    "encode",
    "never_fits",
    "resolve_config",
    "run_cycle",
    "stand_together",
    "typical",
    "with_entry_points",
    "workload_of",
]
