"""The content of a new embedded installation: a platform admin, a simulated cluster, and four tenants.

Idempotent: only missing parts are created, so a second start continues with the same data.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

from django.db import transaction

from alerts.services.recommended import create_recommended_rules
from allotment.setup.accounts import OPERATOR, SIGN_IN_FILE
from clusters.backends.registry import backend_for
from clusters.backends.simulated.seed import DEMO, build_cluster
from clusters.gpu.nvidia import GPU_TAINT, PRODUCT_LABEL
from clusters.models import BackendKind, Cell, Cluster, Flavor, GpuMode, PlacementPolicy
from clusters.services.inventory import inventory_sync
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import Queue
from quotas.services.queues.queue import queue_create
from quotas.services.quota import QuotaAmount, quota_node_ensure, quota_set
from scheduling.models import IdleAction, PriorityClass, PriorityGrant
from scheduling.policy.stating import PolicyStatement
from scheduling.services.policies.workspace_policy import policy_set
from telemetry.usage.prices import price_create
from tenants.models import Role, Tenant, TenantKind, User
from tenants.services.account import user_create
from tenants.services.member import member_set
from tenants.services.tenant import tenant_create

SPEED: Final = 1.0
"""Jobs of the demo take minutes: at this speed a user can follow them."""
_TOLERATE_GPU: Final = [{"key": GPU_TAINT, "operator": "Exists"}]
_MIB_PER_CARD: Final = {"a100-40g": 40_960, "l40s": 46_068}


@dataclass(frozen=True, slots=True)
class DemoWorkspace:
    """One team: its quota of each pool (cards), how far it may borrow and lend, and its members.

    `people` submit jobs as Editors, `admin` manages the workspace. `arrivals` is how many jobs the team
    submits, in proportion to those of the other teams.
    """

    slug: str
    name: str
    folder: str
    a100_cards: int
    l40s_cards: int
    borrowing_cards: int | None
    arrivals: int
    people: tuple[str, ...]
    admin: str

    @property
    def roles(self) -> Mapping[str, Role]:
        """The role of each member by user name."""
        return {self.admin: Role.ADMIN, **dict.fromkeys(self.people, Role.EDITOR)}


FOLDERS: Final = (("research", "Research"), ("products", "Products"))
WORKSPACES: Final = (
    DemoWorkspace("speech-lab", "Speech lab", "research", 24, 4, None, 3, ("lin", "amara", "jonas"), "ines"),
    DemoWorkspace("vision", "Vision", "research", 24, 4, 24, 4, ("mei", "tomas"), "david"),
    DemoWorkspace("search-ads", "Search ads", "products", 24, 4, None, 3, ("priya", "oleg", "sofia"), "hana"),
    DemoWorkspace("robotics", "Robotics", "products", 16, 4, 24, 2, ("kenji", "nadia"), "marcus"),
)
UNASSIGNED_A100_CARDS: Final = 8
"""The root's quota of the pool, for the first team that a user creates; until then, others borrow it."""
# Priority classes above zero must be granted; this team may use `high`.
MAY_USE_HIGH: Final = "search-ads"
IDLE_TEAM: Final = "robotics"
"""The team whose jobs hold GPUs and hardly use them."""
_IDLE_RULE: Final = PolicyStatement(idle_timeout_s=1200, idle_action=IdleAction.PREEMPTIBLE, idle_warn_s=600)
"""Its jobs are warned after ten minutes without use; after twenty, other jobs may preempt them."""
_PRICES: Final = {"a100-40g": (Decimal("2.10"), None), "l40s": (Decimal("1.20"), Decimal("1.50"))}


@transaction.atomic
def operator_ensure(*, home: Path) -> User:
    """Create the platform admin if there is none; write its one-time password into `home`."""
    return _operator(home)


@transaction.atomic
def demo_setup(*, home: Path) -> User:
    """Create all missing parts; write the operator's one-time password into `home` if the operator is new."""
    operator_is_new = not User.objects.filter(username=OPERATOR).exists()
    operator = _operator(home)
    cell, _ = Cell.unscoped.get_or_create(name="default")
    flavors = _flavors(_cluster(cell))
    root = Tenant.unscoped.filter(parent=None).first() or _tenant(None, TenantKind.FOLDER, "acme", "Acme")
    _keep_unassigned(cell, root, flavors["a100-40g"])
    folders = {slug: _tenant(root, TenantKind.FOLDER, slug, name) for slug, name in FOLDERS}
    for plan in WORKSPACES:
        workspace = _tenant(folders[plan.folder], TenantKind.WORKSPACE, plan.slug, plan.name)
        _people(plan, workspace)
        _queue(cell, plan, workspace, flavors)
    if operator_is_new:
        # Only once: what the operator deletes later stays deleted.
        create_recommended_rules(acting_user=SYSTEM)
        _prices(flavors)
        policy_set(acting_user=SYSTEM, tenant=Tenant.unscoped.get(slug=IDLE_TEAM), statement=_IDLE_RULE)
    PriorityGrant.unscoped.get_or_create(
        tenant=Tenant.unscoped.get(slug=MAY_USE_HIGH),
        priority_class=PriorityClass.unscoped.get(name="high"),
    )
    return operator


def _operator(home: Path) -> User:
    existing = User.objects.filter(username=OPERATOR).first()
    if existing is not None:
        return existing
    password = secrets.token_urlsafe(9)
    # It does not expire: the first sign-in may be weeks after the start, and no other admin could renew it.
    user = user_create(
        acting_user=SYSTEM, username=OPERATOR, password=password, must_change_password=True, expires=False
    )
    member_set(acting_user=SYSTEM, user=user, tenant=None, role=Role.PLATFORM_ADMIN)
    target = home / SIGN_IN_FILE
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"user": OPERATOR, "password": password}, file)
    return user


def _cluster(cell: Cell) -> Cluster:
    cluster, _ = Cluster.unscoped.get_or_create(
        name="demo", defaults={"cell": cell, "backend": BackendKind.SIMULATED}
    )
    build_cluster(cluster, node_groups=DEMO, speed=SPEED)
    return cluster


def _flavors(cluster: Cluster) -> dict[str, Flavor]:
    plans = {
        "a100-40g": ("A100-40G", GpuMode.WHOLE, PlacementPolicy.DEFAULT),
        "l40s": ("L40S", GpuMode.SLICE, PlacementPolicy.DEFAULT),
    }
    flavors = {}
    for name, (model, mode, policy) in plans.items():
        flavors[name], _ = Flavor.unscoped.get_or_create(
            cluster=cluster,
            name=name,
            defaults={
                "card_model": model,
                "card_memory_mib": _MIB_PER_CARD[name],
                "gpu_mode": mode,
                "node_selector": {PRODUCT_LABEL: model},
                "tolerations": _TOLERATE_GPU,
                "placement": policy,
            },
        )
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return flavors


def _prices(flavors: dict[str, Flavor]) -> None:
    """Set a price per pool from the beginning of the simulated week's month on."""
    now = clock.now()
    since = (now - timedelta(days=8)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for name, (gpu_hour, slice_hour) in _PRICES.items():
        price_create(
            acting_user=SYSTEM,
            flavor=flavors[name],
            gpu_hour=gpu_hour,
            slice_hour=slice_hour,
            effective_at=since,
            now=now,
        )


def _tenant(parent: Tenant | None, kind: TenantKind, slug: str, name: str) -> Tenant:
    existing = Tenant.unscoped.filter(slug=slug).select_related("parent").first()
    if existing is not None:
        return existing
    return tenant_create(acting_user=SYSTEM, parent=parent, kind=kind, slug=slug, name=name)


def _people(plan: DemoWorkspace, workspace: Tenant) -> None:
    for username, role in plan.roles.items():
        if User.objects.filter(username=username).exists():
            continue
        # No user can sign in with these accounts: the password is discarded.
        password = secrets.token_urlsafe(24)
        user = user_create(
            acting_user=SYSTEM, username=username, password=password, must_change_password=True
        )
        member_set(acting_user=SYSTEM, user=user, tenant=workspace, role=role)


def _keep_unassigned(cell: Cell, root: Tenant, flavor: Flavor) -> None:
    """Give the root quota of a pool before any team has a queue; a later change by an admin stays."""
    if Queue.unscoped.exists():
        return
    node = quota_node_ensure(acting_user=SYSTEM, cell=cell, tenant=root)
    amounts = _amounts(flavor, UNASSIGNED_A100_CARDS, None, slices=False)
    quota_set(acting_user=SYSTEM, node=node, amounts=amounts, on_top=True)


def _queue(cell: Cell, plan: DemoWorkspace, workspace: Tenant, flavors: dict[str, Flavor]) -> None:
    if Queue.unscoped.filter(workspace=workspace, name="default").exists():
        return
    quota_node_ensure(acting_user=SYSTEM, cell=cell, tenant=workspace)
    queue = queue_create(
        acting_user=SYSTEM,
        cell=cell,
        workspace=workspace,
        name="default",
        flavors=[flavors["a100-40g"], flavors["l40s"]],
    )
    amounts = [
        *_amounts(flavors["a100-40g"], plan.a100_cards, plan.borrowing_cards, slices=False),
        *_amounts(flavors["l40s"], plan.l40s_cards, None, slices=True),
    ]
    quota_set(acting_user=SYSTEM, node=queue.node, amounts=amounts, on_top=True)


def _amounts(flavor: Flavor, cards: int, borrowing: int | None, *, slices: bool) -> list[QuotaAmount]:
    """Return a team's quota of one pool. On sliced cards the number of slices is capped, not the quota."""

    def amount_of(resource: Resource, per_card: int) -> QuotaAmount:
        limit = None if borrowing is None else borrowing * per_card
        return QuotaAmount(flavor, resource, cards * per_card, limit)

    count = QuotaAmount(flavor, Resource.GPU_CARDS, None) if slices else amount_of(Resource.GPU_CARDS, 1)
    return [
        count,
        amount_of(Resource.GPU_CORES, 100),
        amount_of(Resource.GPU_MEMORY, flavor.card_memory_mib),
        QuotaAmount(flavor, Resource.CPU, None),
        QuotaAmount(flavor, Resource.MEMORY, None),
    ]
