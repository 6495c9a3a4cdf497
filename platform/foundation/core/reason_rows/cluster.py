"""Reasons of an admitted job whose cluster has not started or removed its pods."""

from __future__ import annotations

from typing import Final

from foundation.core.quantities import gettext_noop as _
from foundation.core.reason_row import Gate, ReasonRow, ReasonSeverity

CLUSTER_UNREACHABLE: Final = ReasonRow(
    "CLUSTER_UNREACHABLE",
    _("Cluster unreachable"),
    ReasonSeverity.ERROR,
    Gate.CLUSTER,
    "The API server of the job's cluster doesn't answer; the job keeps quota and GPUs.",
    sentences=(
        _("Cluster %(cluster)s unreachable since %(at)s. The job keeps its resources."),
        _("Cluster %(cluster)s is unreachable. The job keeps its resources."),
    ),
    helps=(_("No action required. The job continues when the cluster is reachable."),),
)

POD_NOT_CREATED: Final = ReasonRow(
    "POD_NOT_CREATED",
    _("Pod not created"),
    ReasonSeverity.ERROR,
    Gate.CLUSTER,
    "The cluster hasn't confirmed that a pod was created; the platform tries again.",
    sentences=(
        _("The cluster hasn't confirmed the creation of pod %(pod)s. Retrying… %(message)s"),
        _("The cluster hasn't confirmed the creation of the pods. Retrying…"),
    ),
    helps=(_("No action required. After ten attempts the job is requeued."),),
)

IMAGE_PULL_FAILED: Final = ReasonRow(
    "IMAGE_PULL_FAILED",
    _("Can't pull image"),
    ReasonSeverity.ERROR,
    Gate.CLUSTER,
    "The kubelet can't pull an image: wrong name or tag, missing pull secret, unreachable registry.",
    sentences=(
        _("Can't pull the image of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Can't pull the image of pod %(pod)s (pods: %(pods)s): %(cause)s."),
    ),
    helps=(_("Check the image name and tag, and the pull secret in the job file."),),
)

CONTAINER_NOT_CREATED: Final = ReasonRow(
    "CONTAINER_NOT_CREATED",
    _("Container not created"),
    ReasonSeverity.ERROR,
    Gate.CLUSTER,
    "The kubelet can't create a container: missing secret or config map, bad command or hook.",
    sentences=(
        _("Can't create the container of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Can't create the container of pod %(pod)s (pods: %(pods)s): %(cause)s."),
    ),
    helps=(_("Check the secrets, config maps, command and working directory in the job file."),),
)

VOLUME_NOT_MOUNTED: Final = ReasonRow(
    "VOLUME_NOT_MOUNTED",
    _("Volume not mounted"),
    ReasonSeverity.ERROR,
    Gate.CLUSTER,
    "The kubelet can't attach or mount a volume of a pod, or the volume can't be created.",
    sentences=(
        _("Can't mount a volume of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Can't mount a volume of pod %(pod)s (pods: %(pods)s): %(cause)s."),
    ),
    helps=(
        _(
            "The volume of a claim that pod %(pod_without_volume)s mounts can't be created. Check the"
            " storage class of the claim and its provisioner."
        ),
        _("Check that the volume claims, secrets and config maps exist."),
    ),
)

POD_NOT_STARTED: Final = ReasonRow(
    "POD_NOT_STARTED",
    _("Pod not started yet"),
    ReasonSeverity.WAITING,
    Gate.CLUSTER,
    "A pod was created a while ago and doesn't run yet.",
    sentences=(
        _("Pod %(pod)s hasn't started (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Pod %(pod)s was created at %(at)s and hasn't started (pods: %(pods)s)."),
        _("The pods haven't started yet."),
    ),
    helps=(_("A large image takes time to pull. See the pod's events below."),),
)

POD_TERMINATING: Final = ReasonRow(
    "POD_TERMINATING",
    _("Pod still terminating"),
    ReasonSeverity.WAITING,
    Gate.CLUSTER,
    "Deletion of a pod was requested a while ago and the pod still exists.",
    sentences=(
        _("Pod %(pod)s, deleted at %(at)s, is kept by its finalizers: %(finalizers)s."),
        _("Deletion of pod %(pod)s was requested at %(at)s; the pod still exists (pods: %(pods)s)."),
        _("Deletion of the pods was requested; they still exist."),
    ),
    helps=(_("Its GPUs stay allocated until the pod is deleted. Contact a platform admin."),),
)

TASKS_GIVEN_UP: Final = ReasonRow(
    "TASKS_GIVEN_UP",
    _("Tasks abandoned"),
    ReasonSeverity.WAITING,
    Gate.CLUSTER,
    "An elastic job runs without tasks that didn't start in time.",
    sentences=(
        _(
            "%(tasks)s of the tasks didn't start in time; the job runs without them and doesn't"
            " grow again while running. Pod %(pod)s: %(message)s"
        ),
        _(
            "%(tasks)s of the tasks didn't start in time, among them pod %(pod)s; the job runs"
            " without them and doesn't grow again while running."
        ),
        _("The job runs without tasks that didn't start in time, and doesn't grow again while running."),
    ),
    helps=(_("Fix what kept the pod from starting, then restart the job to run all tasks."),),
)
