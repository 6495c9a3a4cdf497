"""The change of a replay: it is checked when it is requested, and applied to a scenario when it is
computed."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor, Sharing
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import Resource
from quotas.models import Queue, QuotaNode
from quotas.selectors.limits.tree import read_tree_rows
from quotas.selectors.tables.node_names import node_names
from quotas.services.queues.queue_settings import SETTINGS
from quotas.services.quota import NodeAmounts, quota_check
from quotas.services.quota_files.pool_form import amounts_of_gpus
from quotas.services.quota_follow import extend_to_queues
from scheduling.engine import model as em
from scheduling.services.policy_replay.recorded_period import apply_limits
from scheduling.services.start_prediction.predict import forecast_config
from scheduling.simulation.history_replay import QuotaStep, Scenario, is_node_of
from scheduling.snapshots.tree import engine_queue

REPLAYED_SETTINGS: Final = tuple(name for name in SETTINGS if name not in ("stop_policy", "max_priority"))
"""Settings of queues that a replay can change."""
MOST_NODES: Final = 5_000
_RESOURCES: Final = (
    Resource.GPU_CARDS,
    Resource.GPU_CORES,
    Resource.GPU_MEMORY,
    Resource.CPU,
    Resource.MEMORY,
)
QuotaPlace = tuple[str, str, str]
"""Quota node, flavor and resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChange:
    """A difference to the recorded configuration; fields that are None or empty change nothing.

    `settings` apply to `queue`, or to all queues of the cell. The nominal quota of `node` in `quota_pool`
    becomes `gpus`: taken from its parent, or created with `on_top`. `pool` gets `pool_nodes` nodes.
    """

    sharing: Sharing | None = None
    queue: Queue | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    node: QuotaNode | None = None
    quota_pool: Flavor | None = None
    gpus: int | None = None
    on_top: bool = False
    pool: Flavor | None = None
    pool_nodes: int | None = None


def describe_change(acting_user: Actor, cell: Cell, change: ReplayChange) -> dict[str, Any]:
    """Return a change in its stored form, with the names of the objects that it concerns.

    Raises: Invalid for an empty change, for unknown settings, and for a quota that could not be saved.
    """
    found: dict[str, Any] = {}
    if change.sharing is not None and change.sharing != cell.sharing:
        found["sharing"] = change.sharing.value
    if change.settings:
        found["queues"] = {
            "queue": str(change.queue.pk) if change.queue else None,
            "name": f"{change.queue.workspace.name} / {change.queue.name}" if change.queue else "",
            "settings": _check_settings(change.settings),
        }
    if change.node is not None and change.quota_pool is not None and change.gpus is not None:
        found["quota"] = _describe_quota(acting_user, change, change.node, change.quota_pool, change.gpus)
    if change.pool is not None and change.pool_nodes is not None:
        if not 0 <= change.pool_nodes <= MOST_NODES:
            message = _("Enter a number of nodes from 0 to %(most)s.") % {"most": f"{MOST_NODES:,}"}
            raise Invalid(message, errors=[FieldError("pool_nodes", "RANGE", message)])
        found["nodes"] = {
            "pool": str(change.pool.pk),
            "name": change.pool.name,
            "nodes": change.pool_nodes,
        }
    if not found:
        message = _("Nothing differs from the recorded configuration. Change at least one setting.")
        raise Invalid(message, code="NO_CHANGE")
    return found


def _check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    columns = {column.name: column for column in Queue._meta.fields}
    found = {}
    for name, value in settings.items():
        if name not in REPLAYED_SETTINGS:
            message = _("Unknown setting %(name)s. Valid: %(valid)s.")
            text = message % {"name": name, "valid": ", ".join(REPLAYED_SETTINGS)}
            raise Invalid(text, errors=[FieldError(f"settings.{name}", "UNKNOWN", text)])
        try:
            found[name] = columns[name].clean(value, None)
        except ValidationError as error:
            text = error.messages[0]
            raise Invalid(text, errors=[FieldError(f"settings.{name}", "INVALID", text)]) from error
    return found


def _describe_quota(
    acting_user: Actor, change: ReplayChange, node: QuotaNode, pool: Flavor, gpus: int
) -> dict[str, Any]:
    """Return the change of quota with every own nominal that would change, before and after."""
    try:
        amounts = amounts_of_gpus(node, pool, gpus)
        changes = extend_to_queues([NodeAmounts(node, amounts)])
        plan = quota_check(
            acting_user=acting_user, cell_id=node.cell_id, changes=changes, on_top=change.on_top
        )
    except Invalid as error:
        raise Invalid(error.detail, errors=[FieldError("gpus", "INVALID", error.detail)]) from error
    rows = read_tree_rows(node.cell_id)
    before = {quota.key: quota.own_nominal for of in rows.quotas.values() for quota in of}
    return {
        "node": str(node.pk),
        "name": node_names([node.pk])[node.pk],
        "pool": pool.name,
        "gpus": gpus,
        "on_top": change.on_top,
        "rows": [
            [str(key.node_id), str(key.flavor_id), key.resource.value, before.get(key, 0), limits.own_nominal]
            for key, limits in plan.rows.items()
            if limits.own_nominal != before.get(key, 0)
        ],
    }


def apply_change(scenario: Scenario, change: Mapping[str, Any]) -> Scenario:
    """Return the scenario with a stored change in effect from its beginning."""
    if "sharing" in change:
        scenario = replace(scenario, config=forecast_config(change["sharing"]))
    if "queues" in change:
        scenario = replace(scenario, queues=_set_queues(scenario.queues, change["queues"]))
    if "quota" in change:
        shifts = {
            (node, flavor, resource): (had, gets)
            for node, flavor, resource, had, gets in change["quota"]["rows"]
        }
        scenario = _shift_quotas(scenario, shifts)
    if "nodes" in change:
        scenario = _resize_pool(scenario, change["nodes"], creates="quota" not in change)
    return scenario


def _set_queues(queues: Sequence[em.Queue], change: Mapping[str, Any]) -> list[em.Queue]:
    rows = {str(row.pk): row for row in Queue.unscoped.filter(pk__in=[queue.id for queue in queues])}
    found = []
    for queue in queues:
        row = rows.get(queue.id)
        if row is None or change["queue"] not in (None, queue.id):
            found.append(queue)
            continue
        for name, value in change["settings"].items():
            setattr(row, name, value)
        found.append(replace(engine_queue(row, queue.flavors), stop_policy=queue.stop_policy))
    return found


def _shift_quotas(scenario: Scenario, shifts: Mapping[QuotaPlace, tuple[int | None, int | None]]) -> Scenario:
    """Shift own nominals by the difference of (before, after) in `shifts`, for the whole period."""

    def shift_quota(node: str, quota: em.Quota) -> em.Quota:
        had, gets = shifts.get((node, quota.flavor, quota.resource), (0, 0))
        if gets is None:
            return replace(quota, own_nominal=None)
        if had is None or quota.own_nominal is None:
            return replace(quota, own_nominal=gets) if had != gets else quota
        return replace(quota, own_nominal=max(quota.own_nominal + gets - had, 0))

    missing = _missing_rows(scenario.quota_nodes, shifts)
    nodes = apply_limits(scenario.quota_nodes, missing)
    return _map_quotas(replace(scenario, quota_nodes=nodes), shift_quota)


def _missing_rows(
    nodes: Sequence[em.QuotaNode], places: Mapping[QuotaPlace, object]
) -> dict[str, list[em.Quota]]:
    """Return quotas of 0 for the places that have no limits yet, by quota node."""
    known = {(node.id, quota.flavor, str(quota.resource)) for node in nodes for quota in node.quotas}
    found: dict[str, list[em.Quota]] = {}
    for node, flavor, resource in places:
        if (node, flavor, str(resource)) not in known:
            found.setdefault(node, []).append(
                em.Quota(flavor=flavor, resource=Resource(resource), own_nominal=0)
            )
    return found


def _map_quotas(scenario: Scenario, change: Callable[[str, em.Quota], em.Quota]) -> Scenario:
    """Apply a function of quota node and limits to the limits at the beginning and to all later ones."""
    return replace(
        scenario,
        quota_nodes=[
            replace(node, quotas=tuple(change(node.id, quota) for quota in node.quotas))
            for node in scenario.quota_nodes
        ],
        quota_steps=[
            QuotaStep(
                step.at,
                {node: [change(node, quota) for quota in quotas] for node, quotas in step.quotas.items()},
            )
            for step in scenario.quota_steps
        ],
    )


def _resize_pool(scenario: Scenario, change: Mapping[str, Any], *, creates: bool) -> Scenario:
    """Change the number of nodes of a pool: add copies of its largest node, or remove those of the highest
    rank.

    If the change has no quota of its own (`creates`), the root gets the capacity of added nodes to lend;
    otherwise no queue could use them. Quota does not change when nodes are removed.
    """
    flavor = next((one for one in scenario.flavors if one.id == change["pool"]), None)
    if flavor is None:
        raise Invalid(_("The pool was deleted."), code="POOL_GONE")
    inside = [node for node in scenario.nodes if is_node_of(node, flavor)]
    number = change["nodes"]
    if number <= len(inside):
        removed = {node.id for node in sorted(inside, key=lambda node: (node.rank, node.id))[number:]}
        return replace(scenario, nodes=[node for node in scenario.nodes if node.id not in removed])
    if not inside:
        raise Invalid(_("Pool %(name)s has no nodes to copy.") % {"name": change["name"]}, code="NO_NODES")
    model = max(inside, key=lambda node: (node.ready, len(node.devices), node.cpu, -node.rank))
    rank = max(node.rank for node in scenario.nodes)
    added = [_copy_node(model, place, rank) for place in range(1, number - len(inside) + 1)]
    scenario = replace(scenario, nodes=[*scenario.nodes, *added])
    if not creates:
        return scenario
    root = next(node for node in scenario.quota_nodes if node.parent is None)
    added_quota = _capacity_of(model, flavor, len(added))
    shifts: dict[QuotaPlace, tuple[int | None, int | None]] = {
        (root.id, flavor.id, resource.value): (0, amount) for resource, amount in added_quota.items()
    }
    return _shift_quotas(scenario, shifts)


def _copy_node(model: em.Node, place: int, rank: int) -> em.Node:
    name = f"added-{place}-{uuid.uuid5(uuid.NAMESPACE_OID, model.id).hex[:6]}"
    return replace(
        model,
        id=name,
        name=name,
        labels={**model.labels, "kubernetes.io/hostname": name},
        used_cpu=0,
        used_memory=0,
        used_pods=0,
        rank=rank + place,
        devices=tuple(
            replace(
                device, uuid=f"{name}/{device.index}", used_cores=0, used_memory=0, holders=0, exclusive=False
            )
            for device in model.devices
        ),
    )


def _capacity_of(node: em.Node, flavor: em.Flavor, nodes: int) -> Mapping[Resource, int]:
    """Return the capacity of a number of such nodes, in the units of quota."""
    found: Counter[Resource] = Counter()
    for device in node.devices:
        found[Resource.GPU_CARDS] += 1
        found[Resource.GPU_CORES] += device.cores
        found[Resource.GPU_MEMORY] += flavor.card_memory if flavor.mode is em.GpuMode.WHOLE else device.memory
    found[Resource.CPU], found[Resource.MEMORY] = node.cpu, node.memory
    return {resource: found[resource] * nodes for resource in _RESOURCES}
