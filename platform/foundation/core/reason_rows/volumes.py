"""Reasons of the volumes that a job mounts, before it is admitted."""

from __future__ import annotations

from typing import Final

from foundation.core.quantities import gettext_noop as _
from foundation.core.reason_row import Gate, ReasonRow, ReasonSeverity

VOLUME_NODE_CONFLICT: Final = ReasonRow(
    "VOLUME_NODE_CONFLICT",
    _("Volume out of reach of free nodes"),
    ReasonSeverity.WAITING,
    Gate.ROOM,
    "Nodes would take the job, but they can't mount the volume of a claim: its node affinity names other"
    " nodes, for example those of another zone. A volume that doesn't exist yet is created for the node"
    " that was selected for it, or for the topologies that its storage class allows.",
    sentences=(
        _(
            "Nodes that would take a task can't mount the volumes of all these claims (nodes:"
            " %(excluded_nodes)s): %(claims)s."
        ),
        _(
            "Until the volume of claim %(uncreated_claim)s is created, tasks can run only on the node"
            " that was selected for it. Other nodes would take a task (nodes: %(excluded_nodes)s)."
        ),
        _(
            "Nodes that would take a task can't mount the volume of claim %(claim)s (nodes:"
            " %(excluded_nodes)s). Tasks that fit in one %(level)s of the other nodes: %(available)s of"
            " %(asked)s."
        ),
        _(
            "Nodes that would take a task can't mount the volume of claim %(claim)s (nodes:"
            " %(excluded_nodes)s). Tasks that fit on the other nodes: %(available)s of %(asked)s."
        ),
        _(
            "Nodes that would take a task can't mount the volume of claim %(claim)s (nodes:"
            " %(excluded_nodes)s)."
        ),
        _("The nodes that would take this job can't mount the volume of one of its claims."),
    ),
    helps=(
        _(
            "Wait until the volume of claim %(uncreated_claim)s is created, after which other nodes may"
            " be able to mount it, or mount another claim."
        ),
        _("Wait for the nodes that can mount the volume, or mount another claim."),
    ),
)

VOLUME_NODES_TOO_SMALL: Final = ReasonRow(
    "VOLUME_NODES_TOO_SMALL",
    _("Unschedulable with its volumes"),
    ReasonSeverity.ERROR,
    Gate.FIT,
    "The nodes that can mount the volumes of the job's claims don't hold it, even if nothing else ran;"
    " nodes that can't mount them would.",
    sentences=(
        _(
            "Empty %(flavor)s nodes that would take a task can't mount the volumes of all these claims"
            " (nodes: %(suitable_nodes)s): %(claims)s."
        ),
        _(
            "Empty %(flavor)s nodes that would take a task can't mount the volume of claim %(claim)s"
            " (nodes: %(suitable_nodes)s). Tasks that fit in one %(level)s of the nodes that can mount"
            " it: %(available)s of %(asked)s."
        ),
        _(
            "Empty %(flavor)s nodes that would take a task can't mount the volume of claim %(claim)s"
            " (nodes: %(suitable_nodes)s). Tasks that fit on the nodes that can mount it: %(available)s"
            " of %(asked)s."
        ),
        _("The nodes that can mount the volumes of this job don't hold it, even when empty."),
    ),
    helps=(
        _("Mount claims whose volumes the same nodes can mount, instead of all of these: %(claims)s."),
        _("Use fewer or smaller tasks, or mount claims whose volumes other nodes can mount."),
    ),
)

VOLUME_CLAIM_NOT_BOUND: Final = ReasonRow(
    "VOLUME_CLAIM_NOT_BOUND",
    _("Volume claim not bound"),
    ReasonSeverity.ERROR,
    Gate.FIT,
    "A persistent volume claim that the job mounts is missing, not bound to a volume, or being deleted.",
    sentences=(
        _("Volume claim %(missing_claim)s doesn't exist in cluster %(cluster)s."),
        _("Volume claim %(deleting_claim)s in cluster %(cluster)s is being deleted."),
        _("Volume claim %(pending_claim)s in cluster %(cluster)s isn't bound to a volume."),
        _(
            "Volume claim %(static_claim)s in cluster %(cluster)s isn't bound to a volume, and its"
            " storage class doesn't create one (kubernetes.io/no-provisioner)."
        ),
        _(
            "Volume claim %(class_unread_claim)s in cluster %(cluster)s isn't bound to a volume, and the"
            " platform's account may not read its storage class (get on storageclasses)."
        ),
        _(
            "Volume claim %(not_permitted_claim)s in cluster %(cluster)s isn't bound: its volume is"
            " created once a node is selected, which the platform's account may not do (patch on"
            " persistentvolumeclaims)."
        ),
        _("Volume claim %(lost_claim)s in cluster %(cluster)s has lost its volume."),
        _("A volume claim of this job isn't bound to a volume."),
    ),
    helps=(
        _(
            "Ask a platform admin to grant the platform's account get on storageclasses in cluster"
            " %(cluster)s, or mount another claim than %(class_unread_claim)s."
        ),
        _(
            "Ask a platform admin to grant the platform's account patch on persistentvolumeclaims in"
            " cluster %(cluster)s, or mount another claim than %(not_permitted_claim)s."
        ),
        _("Check the claim in the workspace's namespace, or mount another one."),
    ),
)

VOLUME_CLAIM_UNREAD: Final = ReasonRow(
    "VOLUME_CLAIM_UNREAD",
    _("Volume claim not read yet"),
    ReasonSeverity.WAITING,
    Gate.FIT,
    "The platform hasn't read a persistent volume claim of the job since its submission, so that it isn't"
    " known which nodes can mount it.",
    sentences=(
        _("Volume claim %(unread_claim)s hasn't been read from cluster %(cluster)s yet."),
        _("A volume claim of this job hasn't been read from its cluster yet."),
    ),
    helps=(_("No action required. The claim is read as soon as the cluster answers."),),
)
