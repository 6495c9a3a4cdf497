"""Actions on several jobs of the list: suspend, resume, restart, change priority and tags, cancel, delete."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from alerts.services.job_watch import watch_job
from foundation.core import clock
from frontend.lists.batch import BatchAct, BatchItem, answer_batch
from frontend.lists.common_acts import build_delete_act
from frontend.pages.jobs import job_facts
from frontend.pages.jobs.addresses import jobs_address
from frontend.pages.jobs.job_facts import Rights, rights_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.labels import state_word
from scheduling.job_file.parsing.tags import TAGS_LENGTH, split_tags
from scheduling.models import Job
from scheduling.selectors.jobs.job import job_query
from scheduling.selectors.jobs.job_tag import job_tags_lately
from scheduling.selectors.policies.priority import priority_class_list
from scheduling.services.jobs import job as service
from scheduling.services.jobs.job_deletion import job_delete
from scheduling.services.jobs.job_tags import change_job_tags
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get


def batch_acts(who: User, place: Tenant | None, rights: Rights) -> list[BatchAct]:
    """Return the actions that the viewer may take on at least their own jobs; each job is checked again.

    Without a workspace the jobs may belong to any workspace.
    """
    if not {Permission.JOB_STOP_OWN, Permission.JOB_STOP_ANY} & set(rights.points):
        return []
    acts = [
        BatchAct(
            key="suspend",
            label=_("Suspend"),
            title=_("Suspend jobs"),
            act=lambda job, _choice: service.job_suspend(acting_user=who, job=job),
            danger=True,
            takes_from=_has_attempt,
            note=_("The jobs keep their submission time. Resume them at any time."),
        ),
        BatchAct(
            key="resume",
            label=_("Resume"),
            title=_("Resume jobs"),
            act=lambda job, _choice: service.job_resume(acting_user=who, job=job),
            note=_("The jobs return to their queues with their original submission time."),
        ),
        BatchAct(
            key="restart",
            label=_("Restart"),
            title=_("Restart jobs"),
            act=lambda job, _choice: service.job_restart(acting_user=who, job=job),
            danger=True,
            takes_from=_has_attempt,
            note=_(
                "The jobs return to their queues with their original submission time. Pending jobs can start"
                " on their GPUs first."
            ),
        ),
        BatchAct(
            key="cancel",
            label=_("Cancel jobs"),
            title=_("Cancel jobs"),
            act=lambda job, _choice: service.job_cancel(acting_user=who, job=job),
            danger=True,
            note=_("The YAML and the timeline are kept. You can clone the jobs."),
        ),
    ]
    acts += [_watch_act(who), *_tag_acts(who, place), _delete_act(who)]
    if rights.submit:
        classes = priority_class_list(viewer=who, workspace=place)
        priority = BatchAct(
            key="priority",
            label=_("Change priority"),
            title=_("Change the priority of jobs"),
            act=lambda job, choice: service.job_priority(acting_user=who, job=job, priority_class=choice),
            note=_("Only the priority of pending jobs can be changed."),
            choice_label=_("Priority"),
            choices=[(one.name, f"{one.name} ({one.value})") for one in classes],
        )
        acts.insert(3, priority)
    return acts


def _has_attempt(job: Job) -> bool:
    """Return whether the job holds anything: a pending one keeps its place by its submission time."""
    return bool(job.holds)


def _watch_act(who: User) -> BatchAct:
    return BatchAct(
        key="watch",
        label=_("Notify me"),
        title=_("Get messages about jobs"),
        act=lambda job, _choice: watch_job(acting_user=who, job=job),
        icon="bell",
    )


def _tag_acts(who: User, place: Tenant | None) -> list[BatchAct]:
    typed = partial(
        BatchAct,
        text_label=_("Tags, separated by commas"),
        text_length=TAGS_LENGTH,
        suggestions=partial(job_tags_lately, viewer=who, workspace=place),
    )
    return [
        typed(
            key="add-tags",
            label=_("Add tags"),
            title=_("Add tags to jobs"),
            act=lambda job, text: change_job_tags(acting_user=who, job=job, add=split_tags(text)),
        ),
        typed(
            key="remove-tags",
            label=_("Remove tags"),
            title=_("Remove tags from jobs"),
            act=lambda job, text: change_job_tags(acting_user=who, job=job, remove=split_tags(text)),
        ),
    ]


def _delete_act(who: User) -> BatchAct:
    return build_delete_act(
        _("Delete jobs"),
        lambda job: job_delete(acting_user=who, job=job),
        _("Only finished jobs can be deleted. Their usage, cost, preemptions and audit records are kept."),
    )


@require_POST
@login_required
def post_batch(request: HttpRequest, workspace: str) -> HttpResponse:
    """Ask before several jobs are changed, and change those that allow it."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    set_frame(request, place)
    acts = batch_acts(who, place, rights_of(who, place))
    return answer_batch(request, acts=acts, find=partial(find_jobs, who, place), back=jobs_address(workspace))


def find_jobs(who: User, place: Tenant | None, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    """Return the jobs that the viewer may see, of one workspace, or of all in sight without one."""
    now = clock.now()
    jobs = job_query(viewer=who, workspace=place).filter(pk__in=ids).order_by("-submitted_at", "-pk")
    return [
        _item(job, job.name if place else f"{job.workspace.slug}/{job.name}", job_facts.list_losses(job, now))
        for job in jobs
    ]


def _item(job: Job, name: str, losses: list[str]) -> BatchItem:
    state = str(state_word("job", job.state).text)
    ended = job.is_terminal
    return BatchItem(id=job.pk, name=name, row=job, state=state, losses=[] if ended else losses)
