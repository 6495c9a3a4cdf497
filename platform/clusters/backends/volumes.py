"""Persistent volume claims in clusters, and the nodes on which their volumes can be mounted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

NodeTerms = list[list[dict[str, Any]]]
"""Terms of a node selector as lists of `matchExpressions`; a field of a term is an expression of its name."""


class Provisioning(StrEnum):
    """The way in which a pending claim gets its volume, by its storage class.

    `immediate`: without a pod, as far as the cluster says. `on_demand`: a provisioner creates it once a node
    is selected for the claim. `not_permitted`: the same, and the platform's account may not select a node.
    `static`: volumes are created by hand and wait for a pod. `class_unread`: the account may not read the
    storage class.
    """

    IMMEDIATE = "immediate"
    ON_DEMAND = "on_demand"
    NOT_PERMITTED = "not_permitted"
    STATIC = "static"
    CLASS_UNREAD = "class_unread"


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A persistent volume claim as the cluster has it.

    `size` is a quantity such as 10Gi: of the volume once the claim is bound, else as requested. `phase`:
    Pending, Bound or Lost. `deleting`: it is being deleted, and no new pod can mount it. `volume` is the name
    of its persistent volume. `topologies` are the nodes for which a volume can be created on demand, none:
    every node, and `selected_node` is the one that was selected; `selected_here`: by this platform. `version`
    guards a write. What the cluster doesn't state is empty.
    """

    name: str
    size: str = ""
    access_modes: tuple[str, ...] = ()
    storage_class: str = ""
    phase: str = ""
    deleting: bool = False
    volume: str = ""
    provisioning: Provisioning = Provisioning.IMMEDIATE
    topologies: NodeTerms = field(default_factory=list)
    selected_node: str = ""
    selected_here: bool = False
    version: str = field(default="", compare=False)
