"""Finds the events that users are sent messages about: watched jobs, preemptions, answers to quota requests.

Each run creates the missing messages, so a failed run delays messages and loses none of the last hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from alerts.delivery.deliver import JOB_NEWS
from alerts.delivery.message_store import create_messages
from alerts.delivery.message_text import describe_job_event
from alerts.models import (
    ChannelKind,
    JobWatch,
    MessageKind,
    Notification,
    NotificationChannel,
    NotificationEvent,
    UserMessage,
)
from foundation.core.identifiers import first_id_at
from quotas.models import QuotaRequest, RequestState
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.models import Decision, DecisionKind, Job, JobState
from tenants.access import permissions
from tenants.access.permissions import Permission

_BACK: Final = timedelta(hours=1)
"""The age of an event at which no message about it is created any more."""
_STARTED, _SHRUNK, _PREEMPTED = "started", "shrunk", "preempted"
_PREEMPTING: Final = {
    DecisionKind.EVICT: _PREEMPTED,
    DecisionKind.MIGRATE: _PREEMPTED,
    DecisionKind.SHRINK: _SHRUNK,
}
_ENDS: Final = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
_ANSWERS: Final = (
    RequestState.APPROVED,
    RequestState.REJECTED,
    RequestState.COUNTERED,
    RequestState.EXPIRED,
)


def create_user_messages(now: datetime) -> int:
    """Create the messages about events of the last hour that their users lack; returns how many."""
    created = _notify_watchers()
    _notify_channels_of_ends(now)
    found = [*_list_preemptions(now), *_list_answers(now)]
    if not found:
        return created
    # A message gets the time of its event, and events of the last hour are found by their time.
    known = set(
        UserMessage.unscoped.filter(created_at__gt=now - _BACK).order_by().values_list("user_id", "source")
    )
    return created + create_messages(each for each in found if (each.user_id, each.source) not in known)


def _notify_watchers() -> int:
    """Notify the watchers of running and ended jobs; a watch ends with its job, account or permission."""
    due = JobWatch.unscoped.filter(job__state__in=_ENDS) | JobWatch.unscoped.filter(
        job__state=JobState.RUNNING, start_notified=False
    )
    created = 0
    for watch in due.select_related("user", "job__workspace").order_by("pk"):
        if watch.user.is_active and permissions.has_permission(
            watch.user, Permission.JOB_VIEW, watch.job.workspace
        ):
            created += _notify(watch)
        else:
            watch.delete()
    return created


@transaction.atomic
def _notify(watch: JobWatch) -> int:
    ended = watch.job.state in _ENDS
    event = str(watch.job.state) if ended else _STARTED
    message = _about(watch.job, MessageKind.JOB, event, f"watch/{watch.pk}/{event}")
    message.user, message.mail_due = watch.user, bool(watch.user.email)
    create_messages([message])
    _notify_channels(watch.job, event)
    if ended:
        watch.delete()
    else:
        JobWatch.unscoped.filter(pk=watch.pk).update(start_notified=True)
    return 1


def _notify_channels(job: Job, event: str) -> None:
    """Create the notifications of a workspace's channels about a watched job, once for all its watchers."""
    channels = NotificationChannel.unscoped.filter(
        tenant=job.workspace, enabled=True, sends_job_watches=True
    ).order_by("pk")
    Notification.unscoped.bulk_create(
        [Notification(channel=channel, job=job, event=event) for channel in channels], ignore_conflicts=True
    )


def _notify_channels_of_ends(now: datetime) -> None:
    """Create the end notification of each job whose start a channel was notified of, even without a watcher.

    Channels for users get it within `JOB_NEWS` of the end. A webhook gets it at any later time, because its
    receiver keeps the job's alert firing until then.
    """
    started = Notification.unscoped.filter(
        Q(channel__kind=ChannelKind.WEBHOOK) | Q(job__finished_at__gt=now - JOB_NEWS),
        event=NotificationEvent.STARTED,
        job__state__in=_ENDS,
        channel__enabled=True,
        channel__sends_job_watches=True,
    )
    ends = Notification.unscoped.filter(job=OuterRef("job"), channel=OuterRef("channel"), event__in=_ENDS)
    lacking = started.filter(~Exists(ends)).order_by("pk").values_list("channel_id", "job_id", "job__state")
    Notification.unscoped.bulk_create(
        [Notification(channel_id=channel, job_id=job, event=state) for channel, job, state in lacking],
        ignore_conflicts=True,
    )


def _about(job: Job, kind: MessageKind, event: str, source: str) -> UserMessage:
    message = describe_job_event(job, event)
    message.kind, message.source = kind, source
    return message


def _list_preemptions(now: datetime) -> Iterator[UserMessage]:
    """Yield a message to the owner of each job that was preempted, wholly or in part, in the last hour.

    The message does not name the preemptor: the job's page does, as far as the reader may see it.
    """
    lately: Sequence[Decision] = list(
        Decision.unscoped.filter(
            pk__gte=first_id_at(now - _BACK),
            created_at__gte=now - _BACK,  # an imported history has new ids
            kind__in=_PREEMPTING,
            code__in=[rule.value for rule in PREEMPTED],
            job__submitted_by__is_active=True,
        )
        .select_related("job__workspace")
        .order_by("pk")
    )
    for one in lately:
        event = _PREEMPTING[DecisionKind(one.kind)]
        message = _about(one.job, MessageKind.PREEMPTION, event, f"preemption/{one.pk}")
        message.path += "?tab=timeline"
        yield message


def _list_answers(now: datetime) -> Iterator[UserMessage]:
    """Yield a message to the requester of each quota request that others decided lately, or that expired."""
    lately = QuotaRequest.unscoped.filter(state__in=_ANSWERS, asker__is_active=True).exclude(
        decided_by=F("asker")
    )
    decided = lately.filter(decided_at__gt=now - _BACK) | lately.filter(
        state=RequestState.EXPIRED, closed_at__gt=now - _BACK
    )
    for request in decided.select_related("node__tenant").order_by("pk"):
        if request.state == RequestState.APPROVED and request.counter:
            continue  # the requester accepted the proposal
        tenant = request.node.tenant
        yield UserMessage(
            user_id=request.asker_id,
            tenant=tenant,
            kind=MessageKind.REQUEST,
            event=request.state,
            facts={"tenant": tenant.name},
            path=f"/w/{tenant.slug}/requests"
            if tenant.kind == "workspace"
            else f"/ops/tenants/{tenant.pk}/requests",
            source=f"request/{request.pk}/{request.state}",
        )
