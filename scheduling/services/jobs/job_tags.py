"""Changes the tags of a job in any state. Tags group jobs for readers; no decision depends on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from foundation.audit import audit_log
from foundation.core import clock
from foundation.sql.bulk import insert_rows
from scheduling.job_file.parsing.tags import read_tags
from scheduling.lifecycle.transitions import advance_job
from scheduling.models import Job, JobTag
from scheduling.policy import combine_policies
from scheduling.policy.violations import find_refused_values
from scheduling.selectors.policies.workspace_policy import path_policies
from scheduling.services.jobs.acting import act_on, require_stop
from scheduling.services.jobs.job_check import PolicyDenied
from tenants.models import User

Change = Callable[[Sequence[str]], Sequence[str]]
"""A function that returns the new tags of a job from the current ones."""


def set_job_tags(*, acting_user: User, job: Job, tags: Collection[str], expected: int | None = None) -> Job:
    """Replace the tags of a job. Equal tags cause no event.

    Raises: PermissionDenied, NotFound; Invalid for a tag, or too many; PolicyDenied for a new tag that the
    policy of the workspace does not allow; PreconditionFailed when the job does not have version `expected`.
    """
    return _change(acting_user, job, expected, lambda _present: list(tags))


def change_job_tags(
    *,
    acting_user: User,
    job: Job,
    add: Collection[str] = (),
    remove: Collection[str] = (),
    expected: int | None = None,
) -> Job:
    """Add and remove tags of a job; tags to add that it has, and tags to remove that it lacks, are ignored.

    Raises: as `set_job_tags`.
    """

    def add_and_remove(present: Sequence[str]) -> list[str]:
        retained = [name for name in present if name not in remove]
        # New tags are checked separately: tags that the job has already must not count twice.
        return [*retained, *(name for name in read_tags(list(add)) if name not in retained)]

    return _change(acting_user, job, expected, add_and_remove)


def _change(user: User, job: Job, expected: int | None, change: Change) -> Job:
    require_stop(user, job)
    act_on(job, expected, partial(_write, user, job, change))
    return job


def _write(user: User, job: Job, change: Change) -> None:
    before = list(job.tags)
    after = read_tags(change(before))
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    if not added and not removed:
        return
    if added:
        policy = combine_policies(path_policies(job.workspace))
        breaches = find_refused_values("tags", {"tags": added}, policy)
        if breaches:
            raise PolicyDenied(breaches[0].message, errors=breaches)
    numbers = {"added": added, "removed": removed}
    advance_job(job, code="tags", now=clock.now(), actor=user.get_username(), numbers=numbers, tags=after)
    JobTag.unscoped.filter(job=job, name__in=removed).delete()
    insert_rows(JobTag.of_job(job, added))
    audit_log.record_action(
        user,
        "job.tags",
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        before={"tags": before},
        after={"tags": after},
    )
