"""Cordon, uncordon and drain, for one node and for several nodes of the list."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Node, NodeCordon
from clusters.models.node_cordon import REASON_LENGTH
from clusters.selectors.grid import node_state
from clusters.selectors.node import get_open_cordon, node_list
from clusters.services.node_cordon import node_cordon, node_uncordon
from foundation.core.errors import NotFound
from frontend.lists.batch import BatchAct, BatchItem
from frontend.shell.form_actions import run_change
from frontend.texts import formats
from frontend.texts.labels import state_word
from scheduling.selectors.allocations.node_drain import (
    DrainedJob,
    DrainPreview,
    preview_drain,
    preview_drains,
)
from scheduling.services.node_drain import node_drain
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_LISTED: Final = 12
"""The maximum number of jobs or pods of one node that a confirmation names."""
_LEAST_HOURS: Final = 0.005
_DONE: Final = {
    "cordon": gettext_lazy("Cordon of %(name)s requested"),
    "uncordon": gettext_lazy("Uncordon of %(name)s requested"),
    "drain": gettext_lazy("Drain of %(name)s requested"),
}


def batch_acts(who: User) -> list[BatchAct]:
    """Return the actions of a user who may operate clusters."""
    if not permissions.has_permission(who, Permission.CLUSTER_EDIT):
        return []
    return [
        BatchAct(
            key="cordon",
            label=_("Cordon"),
            title=_("Cordon nodes"),
            act=lambda node, text: node_cordon(acting_user=who, node=node, reason=text),
            icon="ban",
            fits=lambda line: not line.node.cordoned,
            note=_("New pods aren't scheduled on cordoned nodes. Running pods aren't affected."),
            text_label=_("Reason"),
            text_length=REASON_LENGTH,
        ),
        BatchAct(
            key="uncordon",
            label=_("Uncordon"),
            title=_("Uncordon nodes"),
            act=lambda node, _text: node_uncordon(acting_user=who, node=node),
            icon="circle-check",
            fits=lambda line: line.node.cordoned,
            note=_("New pods can be scheduled on the nodes again. Drains in progress stop."),
        ),
        BatchAct(
            key="drain",
            label=_("Drain"),
            title=_("Drain nodes"),
            act=lambda node, text: node_drain(acting_user=who, node=node, reason=text),
            danger=True,
            icon="log-out",
            note=_(
                "The nodes are cordoned. Their jobs are evicted and return to their queues with their"
                " original submission time. Pods not managed by Allotment aren't evicted."
            ),
            text_label=_("Reason"),
            text_length=REASON_LENGTH,
        ),
    ]


def describe_node_state(node: Any) -> str:
    """Return the state of a node that was read with its open cordon."""
    cordon = get_open_cordon(node)
    draining = cordon is not None and cordon.is_draining
    return node_state(node.ready, node.cordoned, node.closed, draining=draining)


def find_items(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    """Return the nodes of a selection, each with the jobs that a drain would evict and the pods that would
    remain.
    """
    nodes = list(node_list(viewer=who).filter(pk__in=ids))
    previews = preview_drains(viewer=who, nodes=nodes)
    return [
        BatchItem(
            id=node.pk,
            name=node.name,
            row=node,
            state=str(state_word("node", describe_node_state(node)).text),
            losses=describe_losses(previews[node.pk]),
            keeps=_describe_pods(previews[node.pk]),
        )
        for node in nodes
    ]


def describe_losses(preview: DrainPreview) -> list[str]:
    """List what a drain evicts: the sum, then each job with its work since the last checkpoint."""
    if not preview.jobs:
        return []
    words = {"jobs": len(preview.jobs), "hours": _hours(preview.lost_gpu_hours)}
    found = [_("Jobs evicted: %(jobs)s · GPU-hours lost: %(hours)s") % words]
    return [*found, *_shorten([_describe_job(one) for one in preview.jobs])]


def describe_remaining(preview: DrainPreview) -> str:
    """Return the names of the pods that a drain does not evict; empty without any."""
    pods = _describe_pods(preview)
    return (
        _("Not evicted (not managed by Allotment): %(pods)s") % {"pods": _(", ").join(pods)} if pods else ""
    )


def describe_acts(who: User, node: Node, cordon: NodeCordon | None) -> dict[str, object]:
    """Return the values that the page of a node needs for its actions, including what a drain evicts and
    keeps.

    `cordon` is the open request, None after `kubectl cordon`. A user who may not operate clusters has no
    actions.
    """
    if not permissions.has_permission(who, Permission.CLUSTER_EDIT):
        return {"may_edit": False}
    uncordons = cordon is not None and cordon.schedulable
    drains = cordon is not None and not uncordons and cordon.is_draining
    preview = preview_drain(viewer=who, node=node)
    return {
        "may_edit": True,
        "may_cordon": not node.cordoned,
        "may_uncordon": node.cordoned and not uncordons,
        "may_drain": not drains,
        "is_draining": drains,
        "drain_losses": describe_losses(preview),
        "drain_keeps": describe_remaining(preview),
        **{f"do_{act}": {"do": act} for act in _DONE},
    }


def run_act(request: HttpRequest, who: User, node: Node) -> None:
    """Run the action of a dialog of a node's page. Raises: NotFound for an unknown action."""
    reason = request.POST.get("reason", "")
    acts: Mapping[str, Callable[[], object]] = {
        "cordon": partial(node_cordon, acting_user=who, node=node, reason=reason),
        "uncordon": partial(node_uncordon, acting_user=who, node=node),
        "drain": partial(node_drain, acting_user=who, node=node, reason=reason),
    }
    do = request.POST.get("do", "")
    if do not in acts:
        raise NotFound
    run_change(request, acts[do], str(_DONE[do]) % {"name": node.name})


def _describe_job(one: DrainedJob) -> str:
    words = {
        "job": one.job.name,
        "workspace": one.job.workspace.name,
        "hours": _hours(one.lost_gpu_hours or 0.0),
    }
    if one.lost_gpu_hours is None:
        return _("%(job)s (%(workspace)s): not started yet") % words
    if one.job.checkpoint_interval_s:
        return _("%(job)s (%(workspace)s): %(hours)s GPU-hours since the last checkpoint") % words
    return _("%(job)s (%(workspace)s): %(hours)s GPU-hours, no checkpoints declared") % words


def _describe_pods(preview: DrainPreview) -> list[str]:
    return _shorten([f"{pod.namespace}/{pod.name}" for pod in preview.foreign])


def _shorten(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _LISTED
    if more <= 0:
        return list(texts)
    return [*texts[:_LISTED], _("%(count)s more") % {"count": more}]


def _hours(hours: float) -> str:
    """Return hours with one decimal, or two below 1; amounts that round to nothing are 0."""
    if hours < _LEAST_HOURS:
        return "0"
    return formats.format_number(hours, 1 if hours >= 1 else 2)
