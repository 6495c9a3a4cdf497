"""The effect of a quota change before it is saved. Writes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from foundation.core.actor import Actor
from quotas.hooks.job_effects import AffectedJob, JobsPreview, OverQuota, get_provider
from quotas.selectors.tables.node_names import node_names
from quotas.services.quota import Shrink, quota_check
from quotas.services.quota_plan import NodeAmounts, PlannedQuota, QuotaPlan
from quotas.services.quota_warnings import QuotaWarning, plan_warnings
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class VisibleJobs:
    """Jobs by name in the workspaces whose jobs the viewer may see, and the number of all others."""

    jobs: Sequence[AffectedJob]
    others: int


@dataclass(frozen=True, slots=True)
class QuotaPreview:
    """The effect of a quota change; `names` are those of the nodes in `changes` and `over_quota`.

    Compared with the next cycle without the change, `reclaimed` are preempted, `scaled_down` lose tasks above
    their minimum and `started` start, at once or when tasks of other jobs have ended; `spared` are no longer
    preempted and `delayed` no longer start; `left_out` waiting jobs were not evaluated. `timed_out`: the
    effect on jobs could not be computed in time. `warnings` do not prevent the change.
    """

    names: dict[uuid.UUID, str]
    changes: Sequence[PlannedQuota]
    over_quota: Sequence[OverQuota]
    reclaimed: VisibleJobs
    scaled_down: VisibleJobs
    started: VisibleJobs
    spared: VisibleJobs
    delayed: VisibleJobs
    left_out: int
    warnings: Sequence[QuotaWarning]
    timed_out: bool = False


def quota_preview(
    *,
    acting_user: Actor,
    cell_id: uuid.UUID,
    changes: Sequence[NodeAmounts],
    shrink: Shrink | None = None,
    on_top: bool = False,
) -> QuotaPreview:
    """Compare one cycle of the engine with the change and one without.

    Raises: as `quota_check`.
    """
    plan = quota_check(acting_user=acting_user, cell_id=cell_id, changes=changes, on_top=on_top)
    drained = plan.over_quota if shrink is Shrink.DRAIN else ()
    jobs = get_provider().preview_change(cell_id, plan.rows, drained)
    nodes = {change.node.pk for change in plan.changes} | {over.key.node_id for over in plan.over_quota}
    return describe_preview(acting_user, plan, jobs, names=node_names(nodes), warnings=plan_warnings(plan))


def describe_preview(
    acting_user: Actor,
    plan: QuotaPlan,
    jobs: JobsPreview,
    *,
    names: dict[uuid.UUID, str],
    warnings: Sequence[QuotaWarning],
) -> QuotaPreview:
    """Return a plan with its effect, as far as the user may see the jobs."""
    visible = set(permissions.tenants_with(acting_user, Permission.JOB_VIEW).values_list("pk", flat=True))
    return QuotaPreview(
        names=names,
        changes=plan.changes,
        over_quota=plan.over_quota,
        reclaimed=name_visible(jobs.reclaimed, visible),
        scaled_down=name_visible(jobs.scaled_down, visible),
        started=name_visible(jobs.started, visible),
        spared=name_visible(jobs.spared, visible),
        delayed=name_visible(jobs.delayed, visible),
        warnings=warnings,
        left_out=jobs.left_out,
        timed_out=jobs.timed_out,
    )


def name_visible(jobs: Sequence[AffectedJob], visible: set[uuid.UUID]) -> VisibleJobs:
    """Return the jobs of the workspaces in `visible`, and the number of all others."""
    named = [job for job in jobs if job.workspace_id in visible]
    return VisibleJobs(named, len(jobs) - len(named))
