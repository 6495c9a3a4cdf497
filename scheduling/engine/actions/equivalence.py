"""Which jobs of a queue are alike: what holds for one of them in a cycle holds for all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields

from scheduling.engine.model import Job, PlacementRules


def equivalence(job: Job) -> Hashable:
    """Equal for jobs of one queue that fit or fail together, when they stand in line in this order."""
    return (
        tuple(
            (
                role.replicas,
                role.least,
                role.ended,
                role.request,
                _rules(job.rules_of(role)),
                role.topology,
                role.sub_gang,
            )
            for role in job.roles
        ),
        job.min_available,
        job.preemptible,
        job.priority,
        job.evictions,
        job.preempts_after,
        job.replaces,
        job.max_run_s,
        job.topology,
        job.sub_gangs,
    )


def _rules(rules: PlacementRules) -> Hashable:
    return tuple(
        tuple(sorted(value.items())) if isinstance(value, Mapping) else value
        for value in (getattr(rules, item.name) for item in fields(rules))
    )
