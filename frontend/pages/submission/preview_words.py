"""The result of the pre-check as text: the placement, the borrowed quota, and the preempted jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.reasons import Reason
from foundation.core.sentences import join_sentences
from frontend.texts import formats, labels, reasons
from frontend.texts.gpu_hours import format_money
from frontend.texts.start_texts import NO_FORECAST
from scheduling.models import Job
from scheduling.selectors.jobs.job_sight import JobsBySight, split_by_sight
from scheduling.selectors.pending.queue_order import read_queue_order
from scheduling.selectors.pending.start_prediction import NoForecast, queue_forecast
from scheduling.services.jobs.job_check import Submission
from scheduling.services.jobs.job_preview import JobPreview, PreviewedPreemption
from telemetry.usage.hourly_cost import hourly_cost
from tenants.models import User

_MOST: Final = 5
"""The maximum number of nodes and jobs that are named; the others are counted."""


def describe_start(seen: JobPreview) -> str:
    """Describe the quota and the GPUs of a job that starts."""
    if not seen.borrowed:
        return _("Quota and GPUs are available.")
    amounts = _(", ").join(_in_pool(points, pool) for pool, points in seen.borrowed.items())
    return _(
        "GPUs are available. The job borrows %(amounts)s: the tenants that own this quota can reclaim it at "
        "any time, and the job is then preempted."
    ) % {"amounts": amounts}


def describe_preemption(seen: JobPreview) -> str:
    """Describe what a job waits for that would start once other jobs have ended."""
    if not seen.preempted:
        return _(
            "The job would start when jobs that are terminating release their resources. Nothing is reserved "
            "before you submit."
        )
    moved = {each.job.pk for each in seen.preempted if each.moved}
    preempted = {each.job.pk for each in seen.preempted} - moved
    said = []
    if preempted:
        said.append(
            _("Jobs that would be preempted: %(jobs)s.") % {"jobs": formats.format_number(len(preempted))}
        )
    if moved:
        words = {"jobs": formats.format_number(len(moved))}
        said.append(_("Jobs that would be moved to other nodes: %(jobs)s.") % words)
    end = _(
        "The job would start when their pods are deleted. Nothing is preempted, moved or reserved before you "
        "submit."
    )
    return join_sentences([*said, end])


def title_preemption(seen: JobPreview) -> str:
    """Return the title of a job that would start once other jobs have ended."""
    if not seen.preempted:
        return _("Starts after others terminate")
    if all(each.moved for each in seen.preempted):
        return _("Starts after others are moved")
    return _("Starts after preemption")


def list_preempted(viewer: User, preempted: Sequence[PreviewedPreemption]) -> list[str]:
    """Return the preempted or moved jobs by rule: names of those in sight, the number of the others."""
    by_rule: defaultdict[str, dict[Any, Job]] = defaultdict(dict)
    for each in preempted:
        by_rule[each.rule.value][each.job.pk] = each.job
    named = {rule: name_jobs(split_by_sight(viewer, [*jobs.values()])) for rule, jobs in by_rule.items()}
    return [f"{labels.RULES.get(rule, rule)}{_(': ')}{_(', ').join(names)}" for rule, names in named.items()]


def name_jobs(split: JobsBySight) -> Iterator[str]:
    """Yield the names of jobs in sight, and the number of the others."""
    yield from (job.name for job in split.seen[:_MOST])
    if len(split.seen) > _MOST:
        yield _("%(n)s more") % {"n": formats.format_number(len(split.seen) - _MOST)}
    for tenant, count in split.by_tenant.items():
        yield _("jobs of %(tenant)s (%(n)s)") % {"tenant": tenant, "n": formats.format_number(count)}
    if split.rest:
        yield _("jobs of other tenants (%(n)s)") % {"n": formats.format_number(split.rest)}


def list_facts(viewer: User, submission: Submission, seen: JobPreview) -> list[tuple[str, str]]:
    """Return where the job is placed or its position in the queue, its expected start, and its estimated
    cost, as far as known."""
    facts: list[tuple[str, str]] = []
    if seen.tasks:
        facts.append((_("Placement"), _name_nodes(seen)))
    if not seen.starts:
        if not seen.tasks and not _is_delegated(submission):
            facts.append((_("Queue position"), _describe_position(submission)))
        if not may_estimate(submission, seen):
            facts.append((_("Expected start"), _describe_expected_start(seen)))
    cost = hourly_cost(viewer, submission.queue.workspace, seen.tasks, now=clock.now())
    if cost is not None:
        facts.append((_("Estimated cost"), _describe_cost(cost, submission.spec.max_run_s)))
    return facts


def _describe_cost(hourly: Decimal, max_run_s: int | None) -> str:
    """Describe the cost of an hour, and of the longest run if that is limited, at current prices."""

    def format_cost(amount: Decimal) -> str:
        return f"{format_money(amount, settings.ALLOTMENT_CURRENCY_DIGITS)} {settings.ALLOTMENT_CURRENCY}"

    words = {"hourly": format_cost(hourly)}
    if max_run_s is None:
        return _("%(hourly)s per hour") % words
    words |= {"total": format_cost(hourly * max_run_s / 3600), "limit": formats.format_duration(max_run_s)}
    return _("%(hourly)s per hour, %(total)s for the maximum run time of %(limit)s") % words


def _name_nodes(seen: JobPreview) -> str:
    points: Counter[str] = Counter()
    for task in seen.tasks:
        points[task.node or task.flavor] += task.percent
    named = [
        f"{name} ({reasons.format_compute(amount)})" if amount else name
        for name, amount in sorted(points.items())[:_MOST]
    ]
    if len(points) > _MOST:
        named.append(_("%(n)s more") % {"n": formats.format_number(len(points) - _MOST)})
    listed = _(", ").join(named)
    if len(points) == 1:
        return listed
    return _("%(n)s nodes: %(names)s") % {"n": formats.format_number(len(points)), "names": listed}


def _describe_position(submission: Submission) -> str:
    queue = submission.queue
    waiting, before = read_queue_order([queue.pk]).count_before_new(
        queue.pk, user_id=submission.submitted_by.pk, priority=submission.priority.value
    )
    return _("%(place)s of %(total)s in %(queue)s") % {
        "place": formats.format_number(before + 1),
        "total": formats.format_number(waiting + 1),
        "queue": queue.name,
    }


def may_estimate(submission: Submission, seen: JobPreview) -> bool:
    """Return whether a simulation can estimate the start of a job that doesn't start now."""
    known = seen.starts or seen.tasks or seen.reason == Reason.VOLUME_CLAIM_NOT_BOUND
    return not known and not _is_delegated(submission)


def _is_delegated(submission: Submission) -> bool:
    return queue_forecast(submission.queue) is NoForecast.OTHER_SCHEDULER


def _describe_expected_start(seen: JobPreview) -> str:
    """Describe the start of a job for which `may_estimate` is false."""
    if seen.tasks:
        return _("When the pods of terminating jobs are deleted")
    if seen.reason == Reason.VOLUME_CLAIM_NOT_BOUND:
        return str(NO_FORECAST[NoForecast.CLAIM_NOT_BOUND])
    return str(NO_FORECAST[NoForecast.OTHER_SCHEDULER])


def _in_pool(points: int, pool: str) -> str:
    return _("%(amount)s of %(pool)s") % {"amount": reasons.format_compute(points), "pool": pool}
