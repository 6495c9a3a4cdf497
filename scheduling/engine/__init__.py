"""The scheduling engine: which queued jobs start, where, on which cards, and why the others wait.

A pure function over a snapshot. Import from here and from `scheduling.engine.model`; the rest is inside.
A name is imported from its module at its first use, so that whoever needs the data model alone, such as a
command that lists jobs, loads neither numpy nor the algorithms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scheduling.engine.builtin import BUILTIN, cycle_order, resolve_config
    from scheduling.engine.cycle import never_fits, run_cycle
    from scheduling.engine.model.labels import carries as labels_carry
    from scheduling.engine.model.labels import holds as label_holds
    from scheduling.engine.model.options import (
        LOSS_WINDOW_S,
        BackfillOptions,
        ConsolidationOptions,
        FairSharing,
        HousekeepingOptions,
        PreemptionOptions,
        RoomOptions,
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
    from scheduling.engine.placement_stream import Asked, Place, PlacementStream
    from scheduling.engine.plugins.discovery import with_entry_points
    from scheduling.engine.plugins.guard import PluginError
    from scheduling.engine.preemption.candidates import VictimCandidate, normative_order
    from scheduling.engine.preemption.oracle import PreemptionOracle
    from scheduling.engine.preemption.over_quota import find_over_quota_jobs
    from scheduling.engine.preemption.policy import may_preempt
    from scheduling.engine.preemption.search import VictimSearch, find_targets
    from scheduling.engine.preemption.targets import Preemptor, Target, TargetSet
    from scheduling.engine.quota.assign import Replaced, Tried, assign
    from scheduling.engine.quota.assignment import (
        Assignment,
        FlavorChoice,
        FlavorTry,
        Mode,
        Refusal,
        RoleAssignment,
    )
    from scheduling.engine.quota.clusters import Allowed
    from scheduling.engine.quota.fit import Oracle
    from scheduling.engine.quota.flavors import Mismatch
    from scheduling.engine.quota.reduce import Counts, full_counts, largest
    from scheduling.engine.session.config import EngineConfig, ExplainScope
    from scheduling.engine.session.plugin_sets import Action, PluginSet
    from scheduling.engine.state.books import SnapshotError
    from scheduling.engine.state.charges import chosen_charges, demand
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
        LossPut,
        NodeGone,
        NodePut,
        QueuePut,
        QuotaPut,
        UsagePut,
    )
    from scheduling.engine.state.fleet import Bools, Ints, Rows
    from scheduling.engine.state.snapshot import Snapshot
    from scheduling.engine.state.statement import Statement, StatementError
    from scheduling.engine.stream_learner import Learner
    from scheduling.engine.stream_moves import Plan

__all__ = [
    "BUILTIN",
    "LOSS_WINDOW_S",
    "Action",
    "AllocationGone",
    "AllocationPut",
    "Allowed",
    "Asked",
    "Assignment",
    "BackfillOptions",
    "Bools",
    "Candidate",
    "Change",
    "ClaimGone",
    "ClaimPut",
    "CodecError",
    "ConfigError",
    "ConsolidationOptions",
    "Counts",
    "Delta",
    "DevicePicker",
    "EngineConfig",
    "ExplainScope",
    "FairSharing",
    "FlavorChoice",
    "FlavorPut",
    "FlavorTry",
    "HousekeepingOptions",
    "Ints",
    "JobGone",
    "JobPut",
    "Learner",
    "LossPut",
    "Mismatch",
    "Mode",
    "NodeGone",
    "NodePut",
    "Oracle",
    "Order",
    "Place",
    "PlacementStream",
    "Plan",
    "PluginError",
    "PluginSet",
    "PreemptionOptions",
    "PreemptionOracle",
    "Preemptor",
    "Question",
    "QueuePut",
    "QuotaPut",
    "Refusal",
    "Replaced",
    "RoleAssignment",
    "RoomOptions",
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
    "Tried",
    "UsagePut",
    "UserShares",
    "Veto",
    "VictimCandidate",
    "VictimOrder",
    "VictimSearch",
    "WorkloadShape",
    "assign",
    "can_pack_gangs",
    "candidate_key",
    "canonical",
    "chosen_charges",
    "cycle_order",
    "decode",
    "demand",
    "encode",
    "find_over_quota_jobs",
    "find_targets",
    "full_counts",
    "label_holds",
    "labels_carry",
    "largest",
    "may_preempt",
    "never_fits",
    "normative_order",
    "resolve_config",
    "run_cycle",
    "typical_shapes",
    "with_entry_points",
    "workload_of",
]

_MODULES: Final = {
    "session.config": "EngineConfig ExplainScope",
    "stream_moves": "Plan",
    "cycle": "never_fits run_cycle",
    "model.options": (
        "BackfillOptions ConsolidationOptions FairSharing HousekeepingOptions LOSS_WINDOW_S "
        "PreemptionOptions RoomOptions ShareStrategy UserShares VictimOrder"
    ),
    "order.orders": "candidate_key",
    "placement.gang_packing": "can_pack_gangs",
    "model.labels": "labels_carry=carries label_holds=holds",
    "stream_learner": "Learner",
    "placement.placer": "TaskPlacement",
    "placement.index.question": "Question",
    "placement_stream": "Asked Place PlacementStream",
    "placement.index.workload": "TaskWorkload WorkloadShape typical_shapes workload_of",
    "builtin": "BUILTIN cycle_order resolve_config",
    "plugins.discovery": "with_entry_points",
    "plugins.guard": "PluginError",
    "order.protocols": "Candidate Order",
    "placement.index.protocols": "DevicePicker Score Veto",
    "model.registry": "ConfigError",
    "session.plugin_sets": "Action PluginSet",
    "preemption.candidates": "VictimCandidate normative_order",
    "preemption.oracle": "PreemptionOracle",
    "preemption.over_quota": "find_over_quota_jobs",
    "preemption.policy": "may_preempt",
    "preemption.search": "VictimSearch find_targets",
    "preemption.targets": "Preemptor Target TargetSet",
    "quota.assign": "Replaced Tried assign",
    "quota.clusters": "Allowed",
    "quota.assignment": "Assignment FlavorChoice FlavorTry Mode Refusal RoleAssignment",
    "state.charges": "chosen_charges demand",
    "quota.fit": "Oracle",
    "quota.flavors": "Mismatch",
    "quota.reduce": "Counts full_counts largest",
    "state.books": "SnapshotError",
    "state.codec": "CodecError canonical decode encode",
    "state.delta": (
        "AllocationGone AllocationPut Change ClaimGone ClaimPut Delta FlavorPut JobGone JobPut LossPut "
        "NodeGone NodePut QueuePut QuotaPut UsagePut"
    ),
    "state.fleet": "Bools Ints Rows",
    "state.snapshot": "Snapshot",
    "state.statement": "Statement StatementError",
}
"""Names by module, as the imports above say it to type checkers; `name=original` for one that is renamed."""

_SOURCES: Final = {
    name: (module, original or name)
    for module, names in _MODULES.items()
    for name, _, original in (entry.partition("=") for entry in names.split())
}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use and keeps it (PEP 562)."""
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _SOURCES[name]
    found = getattr(importlib.import_module(f"{__name__}.{module}"), original)
    globals()[name] = found
    return found
