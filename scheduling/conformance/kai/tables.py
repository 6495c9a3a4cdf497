"""Checks KAI-Scheduler's tables of allocation, consolidation, preemption, reclaim and stale gangs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduling.conformance.kai.compare import CaseComparison
from scheduling.conformance.kai.reader import read_world
from scheduling.conformance.kai.session import run_action
from scheduling.conformance.kai.world import World

Case = Mapping[str, Any]

ROUND_S = 1.0
"""The time between two rounds in seconds: KAI's schedule period."""


def check_case(case: Case) -> str | None:
    """Run a case and compare; with several rounds the expectation must be reached and stay true."""
    world = read_world(case)
    actions, expected = case["input"]["actions"], case["expected"]
    if case["kind"] == "single":
        for action in actions:
            run_action(world, action)
        return CaseComparison(expected, world).first_difference() or _limits(case, world)
    return _rounds(case, world)


def _rounds(case: Case, world: World) -> str | None:
    until, after = int(case["input"]["roundsUntilMatch"]), int(case["input"]["roundsAfterMatch"])
    for number in range(1, until + after + 1):
        before = world.current_state()
        for action in case["input"]["actions"]:
            run_action(world, action)
        if (line := _limits(case, world)) is not None:
            return f"{line} in round {number}"
        world.end_round(ROUND_S)
        if (
            number >= until
            and (line := CaseComparison(case["expected"], world).first_difference()) is not None
        ):
            return f"{line} after round {number}"
        # If nothing has changed and no job waits for a time, every further round is the same.
        if number >= until and world.current_state() == before and not world.waits_for_time():
            return None
    return None


def _limits(case: Case, world: World) -> str | None:
    """Return the first exceeded limit on the operations of a session, if the case has limits."""
    limits = case["input"]["raw"].get("cacheLimits")
    if limits is None:
        return None
    for name, done in (
        ("NumberOfCacheBinds", world.bindings),
        ("NumberOfCacheEvictions", world.evictions),
        ("NumberOfPipelineActions", world.promises),
    ):
        if done > limits.get(name, 0):
            return f"expected at most {limits.get(name, 0)} {name}, got {done}"
    return None


_NAMES: Final = (
    "actions_allocate_TestHandleAllocation",
    "actions_allocate_TestHandleAllocationNuma",
    "actions_allocate_TestHandleAllocationStuckInReleasing",
    "actions_allocate_TestHandleElasticAllocation",
    "actions_allocate_TestHandleFractionalGPUAllocation",
    "actions_allocate_TestHandleGangAllocation",
    "actions_allocate_TestHandleMIGAllocation",
    "actions_allocate_TestHandleMemoryGPUAllocation",
    "actions_allocate_TestHandleSubGroupsAllocation",
    "actions_allocate_TestHandleTopologyAllocation",
    "actions_allocate_TestInterpodAffinityPredicate",
    "actions_consolidation_TestConsolidation",
    "actions_consolidation_TestHandleConsolidationGpuMemory",
    "actions_consolidation_TestSubGroupsConsolidation",
    "actions_preempt_TestHandleGangPreempt",
    "actions_preempt_TestHandlePreempt",
    "actions_preempt_TestHandlePreemptElastic",
    "actions_preempt_TestHandlePreemptGpuMemory",
    "actions_preempt_TestHandlePreemptNuma",
    "actions_preempt_TestHandlePreemptSubGroups",
    "actions_preempt_TestHandleScatteredNodesForGangPreempt",
    "actions_preempt_TestMIGPreempt",
    "actions_preempt_TestPreemptGangFullDrainMultiVictimPerNode",
    "actions_reclaim_TestHandleDepartmentsReclaim",
    "actions_reclaim_TestHandleElasticReclaim",
    "actions_reclaim_TestHandleGangReclaim",
    "actions_reclaim_TestHandleReclaim",
    "actions_reclaim_TestHandleReclaimGpuMemory",
    "actions_reclaim_TestHandleReclaimNuma",
    "actions_reclaim_TestHandleReclaimSubGroups",
    "actions_reclaim_TestMIGReclaim",
    "actions_reclaim_TestReclaimAnchorVictim",
    "actions_reclaim_TestReclaimAnchorVictim_ControlNoProtectedQueue",
    "actions_stalegangeviction_TestStaleGangEviction",
    "integration_allocate_TestAllocateFractionalGpuIntegrationTest",
    "integration_allocate_TestAllocateIntegrationTest",
    "integration_allocate_TestAllocateTopologyIntegrationTest",
    "integration_allocate_TestHandleMIGAllocation",
    "integration_consolidation_TestConsolidateFractionalIntegrationTest",
    "integration_consolidation_TestConsolidateGangIntegrationTest",
    "integration_consolidation_TestConsolidateIntegrationTest",
    "integration_consolidation_and_reclaim_TestConsolidateAndReclaimIntegrationTest",
    "integration_deletion_tests_TestDeletionIntegrationTest",
    "integration_numa_TestNumaBookkeepingThroughFullPipeline",
    "integration_preempt_TestAllocateDeallocateSubgroupsIntegrationTest",
    "integration_preempt_TestMIGPreempt",
    "integration_preempt_TestPreemptFractionalIntegrationTest",
    "integration_preempt_TestPreemptGangIntegrationTest",
    "integration_preempt_TestPreemptIntegrationTest",
    "integration_reclaim_TestMIGReclaim",
    "integration_reclaim_TestReclaimFractionalIntegrationTest",
    "integration_reclaim_TestReclaimIntegrationTest",
    "integration_stalegangeviction_TestStaleGangEvictionIntegrationTest",
)
_DRA: Final = (
    "integration_allocate_TestDRAAllocation",
    "integration_allocate_TestPendingPodCanUseSharedDRADevice",
    "integration_allocate_TestSharedDRADeviceDoesNotBlockCPUOnlyPod",
    "integration_reclaim_TestDRAOverflowDoesNotBlockReclaimInSameQueue",
    "integration_reclaim_TestReclaimGpuDRAIntegrationTest",
)

TABLES: Final[Mapping[str, Callable[[Case], str | None]]] = dict.fromkeys((*_NAMES, *_DRA), check_case)
