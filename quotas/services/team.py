"""Creating a team in one save: its workspace, members, queue and quota, all or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.errors import AllotmentError, FieldError, Invalid, PermissionDenied, Refused
from foundation.core.quantities import Resource
from quotas.distribution.division import Keep
from quotas.hooks.job_effects import JobsPreview, get_provider
from quotas.models import AllocationMode, Queue, QuotaKey, QuotaNode
from quotas.selectors.limits.tree import build_tree, read_tree_rows
from quotas.selectors.pools.pool_size import OF_GPUS, OF_NODES, PoolSize, pool_sizes
from quotas.selectors.tables.node_names import node_names
from quotas.selectors.tenants.team import TEAM_POINTS
from quotas.services.queues.queue import queue_create
from quotas.services.queues.queue_preset import Preset, queue_preset
from quotas.services.quota import quota_change, quota_node_ensure
from quotas.services.quota_files.pool_form import amounts_of_gpus
from quotas.services.quota_plan import NodeAmounts, QuotaAmount, QuotaPlan, quota_plan
from quotas.services.quota_preview import QuotaPreview, describe_preview
from quotas.services.quota_warnings import NO_JOB_STARTS, QuotaWarning, plan_warnings
from quotas.services.team_effect import effect_rows
from quotas.texts.amounts import resource_label
from quotas.tree import FlavorResource
from quotas.tree.limits import Amount, is_at_least, min_amount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Member, Role, Tenant, TenantKind, User
from tenants.selectors.role import role_named
from tenants.services.invitation import Invitation, user_invite
from tenants.services.member import member_set
from tenants.services.tenant import tenant_create

GPUS_MAX: Final = 10**6
"""The maximum number of GPUs; a larger one is a typing error in any installation."""


@dataclass(frozen=True, slots=True)
class TeamMember:
    """A user and a role. `email` is for the invitation of a user without an account."""

    username: str
    role: str = Role.EDITOR.value
    email: str = ""


@dataclass(frozen=True, slots=True)
class TeamPool:
    """Quota of one pool in whole GPUs, as are both limits; None is unlimited.

    CPU (millicores) and memory (MiB) follow from the pool's nodes where they are not given.
    """

    flavor: Flavor
    gpus: int
    cpu: int | Keep | None = Keep.AS_IS
    memory: int | Keep | None = Keep.AS_IS
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A team to create below `parent`. Pools are tried by the queue in their order.

    With `invite`, users without an account are invited. `allow_idle` accepts a team that can start no job.
    """

    parent: Tenant
    name: str
    slug: str = ""
    members: Sequence[TeamMember] = ()
    pools: Sequence[TeamPool] = ()
    queue: str = "default"
    preset: Preset = Preset.BALANCED
    invite: bool = False
    allow_idle: bool = False


@dataclass(frozen=True, slots=True)
class TeamPoolResult:
    """The nominal quota in one pool, and the resources that are missing for a job with one GPU."""

    flavor: Flavor
    amounts: Mapping[Resource, Amount]
    missing: Sequence[Resource] = ()


@dataclass(frozen=True, slots=True)
class Team:
    """A team that was created, with the links of its invitations, which can't be read again."""

    workspace: Tenant
    queue: Queue
    members: Sequence[Member]
    invitations: Sequence[Invitation]
    pools: Sequence[TeamPoolResult]


@dataclass(frozen=True, slots=True)
class TeamPreview:
    """The result of saving a team: users to invite, its quota, and the effect on jobs of other teams."""

    slug: str
    invited: Sequence[str]
    pools: Sequence[TeamPoolResult]
    quota: QuotaPreview
    can_start: bool


@dataclass(slots=True)
class _Draft:
    """The rows that a transaction has created so far."""

    team: Team
    quota: QuotaPlan
    parent_node: QuotaNode
    warnings: list[QuotaWarning] = field(default_factory=list)


@transaction.atomic
def team_create(*, acting_user: Actor, plan: TeamPlan, address: str = "") -> Team:
    """Create a workspace with members, a queue of a preset and quota taken from the parent's, or nothing.

    `address` is that of the console, for links of invitations.
    Raises: PermissionDenied; Invalid, Conflict and ExceedsParent naming fields of the plan; Refused
    (NO_JOB_STARTS) where no job with one GPU could ever start, unless `allow_idle` is set.
    """
    made = _create(acting_user, plan, address)
    if not plan.allow_idle and not any(not pool.missing for pool in made.team.pools):
        raise _no_job_starts(made.team)
    return made.team


def team_preview(*, acting_user: Actor, plan: TeamPlan) -> TeamPreview:
    """Compute everything that `team_create` would do, and roll it back.

    The effect on jobs is computed afterwards, so that no lock is held while cycles are compared. Raises: as
    `team_create`, except for NO_JOB_STARTS, which is reported in `can_start`.
    """
    with transaction.atomic():
        made = _create(acting_user, plan, "")
        rows = effect_rows(made.quota, made.parent_node, made.team.workspace)
        names = node_names({change.node.pk for change in made.quota.changes})
        transaction.set_rollback(True)
    jobs = get_provider().preview_change(made.quota.cell_id, rows, ()) if rows else JobsPreview()
    return TeamPreview(
        slug=made.team.workspace.slug,
        invited=[invitation.user.username for invitation in made.team.invitations],
        pools=made.team.pools,
        quota=describe_preview(acting_user, made.quota, jobs, names=names, warnings=made.warnings),
        can_start=any(not pool.missing for pool in made.team.pools),
    )


def _create(acting_user: Actor, plan: TeamPlan, address: str) -> _Draft:
    for point in TEAM_POINTS:
        permissions.require_permission(acting_user, point, plan.parent)
    if plan.members:
        permissions.require_permission(acting_user, Permission.MEMBER_EDIT, plan.parent)
    _check_pools(plan.pools)
    workspace = tenant_create(
        acting_user=acting_user,
        parent=plan.parent,
        kind=TenantKind.WORKSPACE,
        slug=plan.slug,
        name=plan.name,
    )
    members, invitations = _add_members(acting_user, workspace, plan, address)
    queue = _open_queue(acting_user, workspace, plan)
    node = quota_node_ensure(acting_user=acting_user, cell=queue.cell, tenant=workspace)
    sizes = pool_sizes(pool.flavor for pool in plan.pools)
    changes = _amounts(node, queue, plan.pools, sizes)
    with _map_error_fields({}, "pools"):
        quota = quota_plan(queue.cell_id, changes)
        warnings = plan_warnings(quota)
        quota_change(acting_user=acting_user, cell_id=queue.cell_id, changes=changes, reason=_reason(plan))
    parent_node = quota_node_ensure(acting_user=acting_user, cell=queue.cell, tenant=plan.parent)
    team = Team(workspace, queue, members, invitations, _results(queue, plan, sizes))
    return _Draft(team, quota, parent_node, warnings)


def _reason(plan: TeamPlan) -> str:
    return _("New team %(name)s") % {"name": plan.name}


def _check_pools(pools: Sequence[TeamPool]) -> None:
    """Refuse a team without pools, a pool that is named twice, and pools of several domains."""
    if not pools:
        raise _build_error("pools", "REQUIRED", _("Enter a number of GPUs for at least one pool."))
    seen: set[uuid.UUID] = set()
    for index, pool in enumerate(pools):
        if pool.flavor.pk in seen:
            raise _build_error(f"pools.{index}.flavor", "TWICE", _("Duplicate pool."))
        if pool.flavor.cluster.cell_id != pools[0].flavor.cluster.cell_id:
            message = _("All pools of a team must belong to one scheduling domain.")
            raise _build_error(f"pools.{index}.flavor", "OTHER_CELL", message)
        seen.add(pool.flavor.pk)


def _open_queue(acting_user: Actor, workspace: Tenant, plan: TeamPlan) -> Queue:
    with _map_error_fields({"name": "queue", "flavors": "pools"}, "queue"):
        queue = queue_create(
            acting_user=acting_user,
            cell=plan.pools[0].flavor.cluster.cell,
            workspace=workspace,
            name=plan.queue,
            flavors=[pool.flavor for pool in plan.pools],
        )
        return queue_preset(acting_user=acting_user, queue=queue, preset=plan.preset)


def _add_members(
    acting_user: Actor, workspace: Tenant, plan: TeamPlan, address: str
) -> tuple[list[Member], list[Invitation]]:
    """Give each member a role, after an invitation where there is no account.

    Raises: PermissionDenied; Invalid with the errors of all members.
    """
    members: list[Member] = []
    invitations: list[Invitation] = []
    errors: list[FieldError] = []
    may_invite = permissions.has_permission(acting_user, Permission.MEMBER_EDIT)
    names = {person.username for person in plan.members}
    found = User.objects.filter(username__in=names, is_active=True).select_related("home")
    accounts = {user.username: user for user in found}
    seen: set[str] = set()
    for index, person in enumerate(plan.members):
        place = f"members.{index}"
        try:
            with transaction.atomic(), _map_error_fields(_of_person(place), f"{place}.username"):
                if person.username in seen:
                    raise _build_error("username", "TWICE", _("Duplicate user."))
                seen.add(person.username)
                user = accounts.get(person.username)
                if user is None:
                    if not (plan.invite and may_invite):
                        raise _unknown(person.username, may_invite=may_invite)
                    invitations.append(_invite(acting_user, person, address))
                    user = invitations[-1].user
                role = role_named(viewer=acting_user, tenant=workspace, name=person.role)
                members.append(member_set(acting_user=acting_user, tenant=workspace, role=role, user=user))
        except PermissionDenied:
            raise
        except AllotmentError as error:
            errors += error.errors
    if errors:
        raise Invalid(errors[0].message, errors=errors)
    return members, invitations


def _invite(acting_user: Actor, person: TeamMember, address: str) -> Invitation:
    return user_invite(acting_user=acting_user, username=person.username, email=person.email, address=address)


def _of_person(place: str) -> Mapping[str, str]:
    return {name: f"{place}.{field}" for name, field in (
        ("username", "username"), ("user", "username"), ("email", "email"), ("role", "role"),
    )}  # fmt: skip


def _unknown(name: str, *, may_invite: bool) -> Invalid:
    message = _("User %(name)s not found.") % {"name": name}
    if not may_invite:
        message = _("User %(name)s not found. Ask a platform admin to invite the user.") % {"name": name}
    return _build_error("username", "unknown", message)


def _amounts(
    node: QuotaNode, queue: Queue, pools: Sequence[TeamPool], sizes: Mapping[uuid.UUID, PoolSize]
) -> list[NodeAmounts]:
    """Return the limits of the workspace, and those of its queue, which gets the whole nominal quota.

    A queue that never borrows needs nominal quota of its own.
    """
    of_workspace: list[QuotaAmount] = []
    of_queue: list[QuotaAmount] = []
    for index, pool in enumerate(pools):
        place = f"pools.{index}"
        with _map_error_fields({}, f"{place}.gpus"):
            found = amounts_of_gpus(node, pool.flavor, pool.gpus, cpu=pool.cpu, memory=pool.memory)
        size = sizes[pool.flavor.pk]
        borrowing, lending = (
            size.compute_amounts(limit) for limit in (pool.borrowing_limit, pool.lending_limit)
        )
        for amount in found:
            word = amount.resource.value if amount.resource in OF_NODES else "gpus"
            placed = replace(amount, place=f"{place}.{word}.")
            of_queue.append(placed)
            of_workspace.append(
                replace(
                    placed,
                    borrowing_limit=borrowing.get(amount.resource, Keep.AS_IS),
                    lending_limit=lending.get(amount.resource, Keep.AS_IS),
                )
            )
    leaf = QuotaNode.unscoped.select_related("tenant__parent").get(pk=queue.node_id)
    return [NodeAmounts(node, of_workspace), NodeAmounts(leaf, of_queue)]


def _results(queue: Queue, plan: TeamPlan, sizes: Mapping[uuid.UUID, PoolSize]) -> list[TeamPoolResult]:
    """Return the quota that the queue has now, and the resources that a job with one GPU can never get."""
    rows = read_tree_rows(queue.cell_id)
    tree, leaf = build_tree(rows), str(queue.node_id)
    nominal = {quota.key: quota.own_nominal for quota in rows.quotas.get(queue.node_id, ())}
    found = []
    for pool in plan.pools:
        size = sizes[pool.flavor.pk]
        amounts: dict[Resource, Amount] = {}
        missing = []
        for resource in (*OF_GPUS, *OF_NODES):
            amounts[resource] = own = nominal.get(QuotaKey(queue.node_id, pool.flavor.pk, resource), 0)
            most = tree.potential(leaf, FlavorResource(str(pool.flavor.pk), resource))
            if queue.allocation_mode == AllocationMode.STATIC:
                most = min_amount(own, most)
            if not is_at_least(most, size.gpu.get(resource, 1) or 1):
                missing.append(resource)
        found.append(TeamPoolResult(pool.flavor, amounts, missing))
    return found


def _no_job_starts(team: Team) -> Refused:
    errors = []
    for index, pool in enumerate(team.pools):
        lacking = _(", ").join(resource_label(resource) for resource in pool.missing)
        message = _("No job with 1 GPU can start on %(pool)s: quota missing for %(missing)s.")
        sentence = message % {"pool": pool.flavor.name, "missing": lacking}
        first = pool.missing[0]
        word = first.value if first in OF_NODES else "gpus"
        errors.append(FieldError(f"pools.{index}.{word}", NO_JOB_STARTS, sentence))
    return Refused(errors[0].message, code=NO_JOB_STARTS, errors=errors)


@contextmanager
def _map_error_fields(names: Mapping[str, str], other: str) -> Iterator[None]:
    """Map the fields of errors raised within to fields of the plan; an error without a field gets `other`."""
    try:
        yield
    except PermissionDenied:
        raise
    except AllotmentError as error:
        found = error.errors or [FieldError(other, error.code, error.detail)]
        error.errors = tuple(
            replace(one, field=names.get(one.field, one.field).removesuffix(".nominal")) for one in found
        )
        raise


def _build_error(place: str, code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(place, code, message)])
