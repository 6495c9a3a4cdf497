"""The labels and tones of states and of preemption rules.

A tone is the CSS class of a tag: `waiting`, `running`, `failed`, `info` or `done`. An unknown state is shown
as it is in the neutral tone, so that a new state never breaks a page.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from foundation.core.reason_row import ReasonSeverity
from foundation.core.reasons import Reason


class Word(NamedTuple):
    """The label of a state and the tone in which it is shown."""

    text: str | Promise
    tone: str


JOB_STATES: dict[str, Word] = {
    "submitted": Word(_("Submitted"), "waiting"),
    "queued": Word(_("Pending"), "waiting"),
    "admitted": Word(_("Admitted"), "info"),
    "starting": Word(_("Starting"), "info"),
    "running": Word(_("Running"), "running"),
    "evicting": Word(_("Evicting"), "waiting"),
    "suspended": Word(_("Suspended"), "done"),
    "stopping": Word(_("Stopping"), "waiting"),
    "succeeded": Word(_("Succeeded"), "done"),
    "failed": Word(_("Failed"), "failed"),
    "cancelled": Word(_("Canceled"), "done"),
}

TASK_STATES: dict[str, Word] = {
    "waiting": Word(pgettext_lazy("task state", "Pending"), "waiting"),
    "bound": Word(_("Scheduled"), "info"),
    "starting": JOB_STATES["starting"],
    "running": JOB_STATES["running"],
    "succeeded": JOB_STATES["succeeded"],
    "failed": JOB_STATES["failed"],
    "leaving": Word(_("Terminating"), "waiting"),
    "gone": Word(_("Terminated"), "done"),
}

NODE_STATES: dict[str, Word] = {
    "ready": Word(_("Ready"), "running"),
    "cordoned": Word(_("Cordoned"), "info"),
    "closed": Word(_("Closed to new jobs"), "waiting"),
    "draining": Word(_("Draining"), "waiting"),
    "pressure": Word(_("Under pressure"), "waiting"),
    "not-ready": Word(_("Not ready"), "failed"),
    "lost": Word(_("Unreachable"), "failed"),
}

SOURCE_STATES: dict[str, Word] = {
    "fresh": Word(_("Up to date"), "running"),
    "partial": Word(_("Incomplete"), "waiting"),
    "stale": Word(_("Stale"), "waiting"),
    "failing": Word(_("Failing"), "failed"),
    "waiting": Word(_("Not read yet"), "info"),
    "disabled": Word(_("Disabled"), "done"),
    "missing": Word(_("No data"), "failed"),
}

AGENT_STATES = SOURCE_STATES | {"missing": Word(_("Not installed"), "done")}

# Labels by allocation mode of a GPU or pool.
GPU_MODES: dict[str, str | Promise] = {
    "none": _("No GPUs"),
    "whole": _("Whole GPU"),
    "slice": _("GPU slice"),
    "mig": "MIG",
}

DEVICE_STATES: dict[str, Word] = {
    "healthy": Word(_("Healthy"), "running"),
    "unhealthy": Word(_("Unhealthy"), "failed"),
    "unknown": Word(_("Unknown"), "done"),
}

_TONES: Final = {
    ReasonSeverity.ERROR: "failed",
    ReasonSeverity.WAITING: "waiting",
    ReasonSeverity.PAUSED: "done",
    ReasonSeverity.INFO: "info",
}
REASON_WORDS: dict[str, Word] = {
    reason.value: Word(gettext_lazy(reason.row.label), _TONES[reason.row.severity]) for reason in Reason
}

# The reasons why nodes refuse a task, by the veto of the engine.
VETOES: dict[str, str | Promise] = {
    "node-ready": _("not ready"),
    "cordon": _("cordoned"),
    "node-pressure": _("under pressure"),
    "node-name": _("node name does not match"),
    "node-selector": _("node selector does not match"),
    "node-affinity": _("node affinity does not match"),
    "volume-claim": _("volume claim not bound"),
    "volume-node-affinity": _("volume not available on the node"),
    "taint": _("untolerated taint"),
    "flavor-taint": _("untolerated taint of the pool"),
    "cards": _("too few GPUs"),
    "gpu-mode": _("GPUs in another allocation mode"),
    "mig-profile": _("MIG profile not available"),
    "card-model": _("GPU model does not match"),
    "card-health": _("too few healthy GPUs"),
    "pods": _("too many pods"),
    "cpu": _("too little CPU"),
    "memory": _("too little memory"),
    "extended": _("too little of an extended resource"),
    "card-cores": _("too few GPUs with enough free"),
    "card-memory": _("too little GPU memory"),
    "pod-affinity": _("pod affinity does not match"),
    "pod-anti-affinity": _("pod anti-affinity excludes it"),
}

# Rules of placement that a user can drop.
PLACEMENT_RULES: dict[str, str | Promise] = {
    "node-name": _("node name"),
    "node-selector": _("node selector"),
    "node-affinity": _("required node affinity"),
    "pod-affinity": _("required pod affinity"),
    "pod-anti-affinity": _("required pod anti-affinity"),
}

RULES: dict[str, str | Promise] = {
    "IN_QUEUE_PRIORITY": _("Higher priority in the queue"),
    "RECLAIM_NOMINAL": _("Quota reclaimed"),
    "RECLAIM_WHILE_BORROWING": _("Reclaimed while borrowing"),
    "FAIR_SHARE": _("Fair sharing"),
    "NODE_PRESSURE": _("Node pressure"),
    "NODE_LOST": _("Node unreachable"),
    "NODE_DRAINED": _("Node drained"),
    "DEVICE_UNHEALTHY": _("GPU failed"),
    "NOT_READY": _("Readiness timeout"),
    "STALE_GANG": _("Gang below minimum size"),
    "BUDGET": _("Budget exhausted"),
    "IDLE": _("Idle timeout"),
    "SLICE_RETURNED": _("Lent GPU memory returned"),
    "OVERRIDE_ENDED": _("Temporary quota expired"),
    "QUEUE_DRAINED": _("Queue drained"),
    "CONSOLIDATION": _("Defragmentation"),
    "TIME_LIMIT": _("Run time limit exceeded"),
}

# The causes of an attempt's end other than a rule of the engine.
CAUSES: dict[str, str | Promise] = {
    "TASK_FAILED": _("A task failed"),
    "START_LIMIT": _("Start timeout"),
    "POD_DELETED": _("Pod deleted"),
    "USER": _("Requested by user"),
    "RESTART": _("Restarted by user"),
    "CANCELLED": _("Canceled by user"),
    "IMAGE_RUNS_AS_ROOT": _("Image runs as root"),
    "IMAGE_NAME_INVALID": _("Invalid image name"),
    "IMAGE_NOT_ON_NODE": _("Image not on the node"),
    "NAMESPACE_NOT_OWNED": _("Namespace belongs to another owner"),
}

ROLES: dict[str, str | Promise] = {
    "admin": _("Admin"),
    "editor": _("Editor"),
    "viewer": _("Viewer"),
    "platform-admin": _("Platform admin"),
    "platform-viewer": _("Platform viewer"),
    "auditor": _("Auditor"),
}

JOB_KINDS: dict[str, str | Promise] = {
    "batch": _("Batch"),
    "pytorch": "PyTorch",
    "mpi": "MPI",
    "notebook": _("Notebook"),
    "service": _("Service"),
}

_KINDS = {
    "job": JOB_STATES,
    "task": TASK_STATES,
    "node": NODE_STATES,
    "device": DEVICE_STATES,
    "source": SOURCE_STATES,
    "agent": AGENT_STATES,
    "reason": REASON_WORDS,
}


def state_word(kind: str, state: str) -> Word:
    """Return the label of a state; `kind` is `job`, `task`, `node`, `device` or `reason`."""
    return _KINDS[kind].get(str(state)) or Word(str(state).replace("_", " ").replace("-", " "), "done")


def rule_word(rule: str) -> str:
    """Return the label of the rule or cause that ended an attempt."""
    return str(RULES.get(rule) or CAUSES.get(rule, rule))


def role_word(role: str) -> str:
    """Return the label of a member's role."""
    return str(ROLES.get(role, role))


def kind_word(kind: str) -> str:
    """Return the label of a job's kind."""
    return str(JOB_KINDS.get(kind, kind))
