"""Flavors: pools of nodes with one card model and mode, created by hand or found in the nodes' labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import F, ProtectedError
from django.utils.translation import gettext as _

from clusters.gpu.nvidia import GPU_TAINT, PRODUCT_LABEL
from clusters.models import Cell, Cluster, Flavor, GpuMode, Node, PlacementPolicy
from clusters.services.inventory import flavor_of
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import dns_label
from foundation.messaging import outbox
from foundation.sql.versions import advance_version
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models.names import clean_slug

_NAME_LENGTH: Final = 63
_PER_GPU_MAX: Final = 2**30
_TOLERATE_GPU: Final = {"key": GPU_TAINT, "operator": "Exists"}
_BATCH: Final = 500  # SQLite bounds the parameters of a statement


@dataclass(frozen=True, slots=True)
class FlavorPlan:
    """A flavor that nodes of a cluster would form; `card_memory_mib` is that of their smallest card.

    For MIG it is that of their largest instance.
    """

    name: str
    card_model: str
    card_memory_mib: int
    gpu_mode: GpuMode
    node_selector: Mapping[str, str]
    nodes: int = 0
    cards: int = 0
    tolerations: Sequence[Mapping[str, str]] = ()


@transaction.atomic
def flavor_add(
    *, acting_user: Actor, cluster: Cluster, plan: FlavorPlan, may_be_empty: bool = False
) -> Flavor:
    """Create a flavor. Each node belongs to the first flavor, by name, whose whole selector it carries.

    Raises: PermissionDenied; Invalid for name or selector; Conflict for a name that is taken, and for a
    flavor that no node would belong to unless it `may_be_empty`.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    name = clean_slug(plan.name, field="name")
    if not plan.node_selector:  # it would match every present and future node
        message = _("At least one node label is required")
        raise Invalid(errors=[FieldError("node_selector", "REQUIRED", message)])
    Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    flavor = Flavor(
        cluster=cluster,
        name=name,
        card_model=plan.card_model,
        card_memory_mib=plan.card_memory_mib,
        gpu_mode=plan.gpu_mode,
        node_selector=dict(plan.node_selector),
        tolerations=[dict(one) for one in plan.tolerations],
    )
    try:
        with transaction.atomic():
            flavor.save(force_insert=True)
    except IntegrityError as error:
        taken = _("Pool name already exists in the cluster")
        raise Conflict(taken, code="NAME_TAKEN", errors=[FieldError("name", "NAME_TAKEN", taken)]) from error
    _join(cluster)
    if not may_be_empty and not flavor.nodes.filter(present=True).exists():
        raise _no_nodes(flavor)
    after = {"name": name, "cluster": cluster.name, "mode": plan.gpu_mode, "selector": flavor.node_selector}
    audit_log.record_action(acting_user, "flavor.add", entity="flavor", entity_id=flavor.pk, after=after)
    return flavor


def _no_nodes(flavor: Flavor) -> Conflict:
    """Return the error for a flavor without nodes: none match, or all that match have another flavor."""
    nodes = Node.unscoped.filter(cluster=flavor.cluster, present=True).select_related("flavor")
    taken = sorted({n.flavor.name for n in nodes if n.flavor and flavor_of(n.labels, [flavor])})
    labels = ", ".join(f"{label}={value}" for label, value in sorted(flavor.node_selector.items()))
    message = _("No node of cluster %(cluster)s has the labels %(labels)s.")
    if taken:
        message = _("All nodes of cluster %(cluster)s with the labels %(labels)s belong to: %(flavors)s.")
    values = {"cluster": flavor.cluster.name, "labels": labels, "flavors": ", ".join(taken)}
    text = message % values
    return Conflict(text, code="NO_NODES", errors=[FieldError("node_selector", "NO_NODES", text)])


@transaction.atomic
def flavor_set(
    *,
    acting_user: Actor,
    flavor: Flavor,
    cpu_per_gpu: int | None,
    memory_per_gpu: int | None,
    placement: PlacementPolicy,
    expected: int | None = None,
) -> Flavor:
    """Set the CPU (millicores) and memory (MiB) that go with one GPU, and how nodes are chosen.

    None is the ratio of the nodes. Assigned quota stays as it is, and running tasks stay on their nodes.
    Raises: PermissionDenied; Invalid for an amount out of bounds; PreconditionFailed if the flavor is not
    at the version `expected`.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    ratio = {"cpu_per_gpu": cpu_per_gpu, "memory_per_gpu": memory_per_gpu}
    for field, amount in ratio.items():
        if amount is not None and not 0 < amount <= _PER_GPU_MAX:
            message = _("Enter an amount greater than 0, or leave it empty for the ratio of the nodes.")
            raise Invalid(message, errors=[FieldError(field, "RANGE", message)])
    advance_version(flavor, expected=expected)
    settings = {**ratio, "placement": placement.value}
    before = Flavor.unscoped.values(*settings).get(pk=flavor.pk)
    Flavor.unscoped.filter(pk=flavor.pk).update(**settings)
    flavor.cpu_per_gpu, flavor.memory_per_gpu, flavor.placement = cpu_per_gpu, memory_per_gpu, placement
    audit_log.record_action(
        acting_user, "flavor.set", entity="flavor", entity_id=flavor.pk, before=before, after=settings
    )
    outbox.add_hint(outbox.Topic.CYCLE, flavor.cluster.cell_id)
    return flavor


@transaction.atomic
def flavor_remove(*, acting_user: Actor, flavor: Flavor) -> None:
    """Remove a flavor with its quota; its nodes stay, and join another flavor whose selector they match.

    Raises: PermissionDenied; Conflict while a queue, a loan or the history of a job refers to it.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    cluster = flavor.cluster
    Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    key, before = flavor.pk, {"name": flavor.name, "cluster": cluster.name, "selector": flavor.node_selector}
    try:
        with transaction.atomic():
            flavor.delete()
    except ProtectedError as error:
        kinds = sorted({str(held._meta.verbose_name_plural) for held in error.protected_objects})
        message = _("Pool %(name)s is in use by: %(kinds)s")
        text = message % {"name": before["name"], "kinds": ", ".join(kinds)}
        raise Conflict(text, code="FLAVOR_IN_USE") from error
    _join(cluster)
    # The quota of the flavor is deleted, too.
    Cell.unscoped.filter(pk=cluster.cell_id).update(
        inventory_version=F("inventory_version") + 1, quota_version=F("quota_version") + 1
    )
    outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)
    audit_log.record_action(acting_user, "flavor.remove", entity="flavor", entity_id=key, before=before)


def flavors_found(*, acting_user: Actor, cluster: Cluster) -> list[FlavorPlan]:
    """Return the flavors that would take the cards of nodes without one, by the product in their labels.

    Nodes whose product is partitioned in more than one way cannot be distinguished by that label and are left
    out,
    as are those without the label. Raises: PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_VIEW)
    nodes = Node.unscoped.filter(cluster=cluster, present=True, flavor=None).prefetch_related("devices")
    products: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes.order_by("name"):
        if (product := node.labels.get(PRODUCT_LABEL)) and node.devices.all():
            products[product].append(node)
    taken = set(Flavor.unscoped.filter(cluster=cluster).values_list("name", flat=True))
    plans = [_plan(product, found) for product, found in sorted(products.items())]
    return [plan for plan in plans if plan is not None and plan.name not in taken]


def _plan(product: str, nodes: Iterable[Node]) -> FlavorPlan | None:
    nodes = list(nodes)
    cards = [card for node in nodes for card in node.devices.all()]
    modes = {card.mode for card in cards}
    if len(modes) != 1:
        return None
    mode = GpuMode(modes.pop())
    sizes = [card.memory_mib for card in cards]
    return FlavorPlan(
        name=dns_label(product.removeprefix("NVIDIA-"), _NAME_LENGTH),
        card_model=cards[0].model or product,
        # An instance is charged what its profile says; no more than the largest present one.
        card_memory_mib=max(sizes) if mode == GpuMode.MIG else min(sizes),
        gpu_mode=mode,
        node_selector={PRODUCT_LABEL: product},
        nodes=len(nodes),
        cards=len(cards),
        # The usual taint that keeps other pods off GPU nodes: the pool's jobs tolerate it.
        tolerations=[_TOLERATE_GPU] if any(_is_gpu_taint(node) for node in nodes) else (),
    )


def _is_gpu_taint(node: Node) -> bool:
    return any(taint.get("key") == GPU_TAINT for taint in node.taints)


def _join(cluster: Cluster) -> None:
    flavors = list(Flavor.unscoped.filter(cluster=cluster).order_by("name"))
    moved = []
    for node in Node.unscoped.select_for_update(no_key=True).filter(cluster=cluster).order_by("pk"):
        flavor = flavor_of(node.labels, flavors)
        if flavor != node.flavor_id:
            node.flavor_id = flavor
            moved.append(node)
    Node.unscoped.bulk_update(moved, ["flavor"], batch_size=_BATCH)
    if moved:
        Cell.unscoped.filter(pk=cluster.cell_id).update(inventory_version=F("inventory_version") + 1)
        outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)
