"""This module chooses the workload mix that placement policies learn from.

To learn is expensive, so the mix is a part of the snapshot that its owner stores between cycles and counts
again only when the present jobs have become different (`find_workload_change`).
"""

from __future__ import annotations

from scheduling.engine.model import TaskWorkload
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.workload_mix import WorkloadMix

# A stored mix no longer describes the present jobs when this share of their tasks is of other shapes. On the
# openb traces, smaller shares do not allocate more cards.
DRIFT_LIMIT = 1 / 8


def learning_policies(snapshot: Snapshot, rule: PlacementRule) -> list[str]:
    """Return the policies of the snapshot's flavors that learn from the workload mix."""
    asked = {flavor.policy for flavor in snapshot.flavors.values()}
    return [name for name in rule.learning_policies if name in asked]


def workload_to_learn(snapshot: Snapshot) -> TaskWorkload:
    """Return the stored mix, or else that of the present jobs, so coarse that it rarely changes."""
    return snapshot.workload if snapshot.workload.counts else _count_present(snapshot).to_coarse()


def find_workload_change(snapshot: Snapshot) -> TaskWorkload | None:
    """Return the mix of the present jobs if it differs from the stored one by more than the limit."""
    present = _count_present(snapshot).to_shares()
    changed = present.measure_distance(snapshot.workload) > DRIFT_LIMIT
    return present if changed and present.counts else None


def _count_present(snapshot: Snapshot) -> TaskWorkload:
    cores = int(snapshot.fleet.card_cores.max(initial=1))
    mix = snapshot.job_memo.get(WorkloadMix)
    if not isinstance(mix, WorkloadMix) or mix.card_cores != cores:
        mix = snapshot.job_memo[WorkloadMix] = WorkloadMix(cores)
    return mix.follow_changes(snapshot.jobs, snapshot.job_changes)
