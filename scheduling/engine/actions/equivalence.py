"""Which jobs of a queue are alike: what holds for one of them in a cycle holds for all."""

from __future__ import annotations

from collections.abc import Hashable

from scheduling.engine.model import Job


def equivalence(job: Job) -> Hashable:
    """Equal for jobs of one queue that fit or fail together."""
    rules = job.rules
    return (
        tuple((role.replicas, role.least, role.request) for role in job.roles),
        job.min_available,
        job.preemptible,
        rules.node_name,
        tuple(sorted(rules.node_selector.items())),
        rules.node_affinity,
        rules.tolerations,
    )
