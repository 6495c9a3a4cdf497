"""The scheduling engine: it decides which queued jobs start, on which nodes and cards, and why others wait.

The engine is a pure function of a snapshot. Other packages import from here and from
`scheduling.engine.model` only. A name is imported from its module at its first use, so that a user of the
data model alone, such as a command that lists jobs, loads neither numpy nor the algorithms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scheduling.engine.builtin import BUILTIN, cycle_order, resolve_config
    from scheduling.engine.cycle import never_fits, run_cycle
    from scheduling.engine.model.labels import has_labels, matches_expression
    from scheduling.engine.model.options import (
        LOSS_WINDOW_S,
        BackfillOptions,
        ConsolidationOptions,
        FairSharing,
        HousekeepingOptions,
        NoRoomOptions,
        PreemptionOptions,
        ShareStrategy,
        UserShares,
        VictimOrder,
    )
    from scheduling.engine.model.registry import ConfigError
    from scheduling.engine.order.orders import candidate_key
    from scheduling.engine.order.protocols import Candidate, Order
    from scheduling.engine.placement.gang_packing import can_pack_gangs
    from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
    from scheduling.engine.placement.index.question import Question
    from scheduling.engine.placement.index.workload import (
        TaskWorkload,
        WorkloadShape,
        typical_shapes,
        workload_of,
    )
    from scheduling.engine.placement.placer import TaskPlacement
    from scheduling.engine.placement_stream import PlacementStream, PreparedRequest, RowAndCards
    from scheduling.engine.plugins.discovery import with_entry_points
    from scheduling.engine.plugins.guard import PluginError
    from scheduling.engine.preemption.candidates import VictimCandidate, normative_order
    from scheduling.engine.preemption.oracle import PreemptionOracle
    from scheduling.engine.preemption.over_quota import find_over_quota_jobs
    from scheduling.engine.preemption.policy import may_preempt
    from scheduling.engine.preemption.search import VictimSearch, find_targets
    from scheduling.engine.preemption.targets import Preemptor, Target, TargetSet
    from scheduling.engine.quota.assign import LastTried, ReplacedRole, assign_flavors
    from scheduling.engine.quota.assignment import (
        Assignment,
        AssignmentMode,
        FlavorChoice,
        FlavorTry,
        Refusal,
        RoleAssignment,
    )
    from scheduling.engine.quota.fit import Oracle
    from scheduling.engine.quota.flavors import Mismatch
    from scheduling.engine.quota.one_cluster import FlavorFilter
    from scheduling.engine.quota.partial_admission import RoleCounts, find_largest_size, full_counts
    from scheduling.engine.session.config import EngineConfig, ExplainScope
    from scheduling.engine.session.plugin_sets import Action, PluginSet
    from scheduling.engine.session.session import DeadlineExceededError
    from scheduling.engine.state.allocation_ledger import SnapshotError
    from scheduling.engine.state.charges import charges_in_flavors, compute_demand
    from scheduling.engine.state.codec import CodecError, decode, encode, to_canonical_json
    from scheduling.engine.state.delta import (
        AllocationPut,
        AllocationRemoved,
        Change,
        ClaimPut,
        ClaimRemoved,
        Delta,
        FlavorPut,
        JobPut,
        JobRemoved,
        LossPut,
        NodePut,
        NodeRemoved,
        QueuePut,
        QuotaPut,
        UsagePut,
    )
    from scheduling.engine.state.fleet import Bools, Ints, Rows
    from scheduling.engine.state.snapshot import Snapshot
    from scheduling.engine.state.statement import Statement, StatementError
    from scheduling.engine.stream_learner import WorkloadLearner

__all__ = [
    "BUILTIN",
    "LOSS_WINDOW_S",
    "Action",
    "AllocationPut",
    "AllocationRemoved",
    "Assignment",
    "AssignmentMode",
    "BackfillOptions",
    "Bools",
    "Candidate",
    "Change",
    "ClaimPut",
    "ClaimRemoved",
    "CodecError",
    "ConfigError",
    "ConsolidationOptions",
    "DeadlineExceededError",
    "Delta",
    "DevicePicker",
    "EngineConfig",
    "ExplainScope",
    "FairSharing",
    "FlavorChoice",
    "FlavorFilter",
    "FlavorPut",
    "FlavorTry",
    "HousekeepingOptions",
    "Ints",
    "JobPut",
    "JobRemoved",
    "LastTried",
    "LossPut",
    "Mismatch",
    "NoRoomOptions",
    "NodePut",
    "NodeRemoved",
    "Oracle",
    "Order",
    "PlacementStream",
    "PluginError",
    "PluginSet",
    "PreemptionOptions",
    "PreemptionOracle",
    "Preemptor",
    "PreparedRequest",
    "Question",
    "QueuePut",
    "QuotaPut",
    "Refusal",
    "ReplacedRole",
    "RoleAssignment",
    "RoleCounts",
    "RowAndCards",
    "Rows",
    "Score",
    "ShareStrategy",
    "Snapshot",
    "SnapshotError",
    "Statement",
    "StatementError",
    "Target",
    "TargetSet",
    "TaskPlacement",
    "TaskWorkload",
    "UsagePut",
    "UserShares",
    "Veto",
    "VictimCandidate",
    "VictimOrder",
    "VictimSearch",
    "WorkloadLearner",
    "WorkloadShape",
    "assign_flavors",
    "can_pack_gangs",
    "candidate_key",
    "charges_in_flavors",
    "compute_demand",
    "cycle_order",
    "decode",
    "encode",
    "find_largest_size",
    "find_over_quota_jobs",
    "find_targets",
    "full_counts",
    "has_labels",
    "matches_expression",
    "may_preempt",
    "never_fits",
    "normative_order",
    "resolve_config",
    "run_cycle",
    "to_canonical_json",
    "typical_shapes",
    "with_entry_points",
    "workload_of",
]

_MODULES: Final = {
    "builtin": "BUILTIN cycle_order resolve_config",
    "cycle": "never_fits run_cycle",
    "model.labels": "has_labels matches_expression",
    "model.options": (
        "LOSS_WINDOW_S BackfillOptions ConsolidationOptions FairSharing HousekeepingOptions "
        "NoRoomOptions PreemptionOptions ShareStrategy UserShares VictimOrder"
    ),
    "model.registry": "ConfigError",
    "order.orders": "candidate_key",
    "order.protocols": "Candidate Order",
    "placement.gang_packing": "can_pack_gangs",
    "placement.index.protocols": "DevicePicker Score Veto",
    "placement.index.question": "Question",
    "placement.index.workload": "TaskWorkload WorkloadShape typical_shapes workload_of",
    "placement.placer": "TaskPlacement",
    "placement_stream": "PreparedRequest RowAndCards PlacementStream",
    "plugins.discovery": "with_entry_points",
    "plugins.guard": "PluginError",
    "preemption.candidates": "VictimCandidate normative_order",
    "preemption.oracle": "PreemptionOracle",
    "preemption.over_quota": "find_over_quota_jobs",
    "preemption.policy": "may_preempt",
    "preemption.search": "VictimSearch find_targets",
    "preemption.targets": "Preemptor Target TargetSet",
    "quota.assign": "LastTried ReplacedRole assign_flavors",
    "quota.assignment": "Assignment AssignmentMode FlavorChoice FlavorTry Refusal RoleAssignment",
    "quota.fit": "Oracle",
    "quota.flavors": "Mismatch",
    "quota.one_cluster": "FlavorFilter",
    "quota.partial_admission": "RoleCounts find_largest_size full_counts",
    "session.config": "EngineConfig ExplainScope",
    "session.plugin_sets": "Action PluginSet",
    "session.session": "DeadlineExceededError",
    "state.allocation_ledger": "SnapshotError",
    "state.charges": "charges_in_flavors compute_demand",
    "state.codec": "CodecError decode encode to_canonical_json",
    "state.delta": (
        "AllocationPut AllocationRemoved Change ClaimPut ClaimRemoved Delta FlavorPut JobPut JobRemoved "
        "LossPut NodePut NodeRemoved QueuePut QuotaPut UsagePut"
    ),
    "state.fleet": "Bools Ints Rows",
    "state.snapshot": "Snapshot",
    "state.statement": "Statement StatementError",
    "stream_learner": "WorkloadLearner",
}
"""Names by module, equal to the imports for type checkers above; `name=original` for a renamed import."""

_SOURCES: Final = {
    name: (module, original or name)
    for module, names in _MODULES.items()
    for name, _, original in (entry.partition("=") for entry in names.split())
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use and store it (PEP 562)."""
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _SOURCES[name]
    found = getattr(importlib.import_module(f"{__name__}.{module}"), original)
    globals()[name] = found
    return found
