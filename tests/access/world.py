"""A world with two of everything that an address can name: one for `here` and one for the other workspace.

The workspace of the requests is in a folder, beside a second one; the other workspace is in another folder.
Names contain the word of their workspace, so that a search for the word finds a leak.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from alerts.models import AlertRule, NotificationChannel, Silence, UserMessage
from clusters.models import Cell, Cluster, Flavor, Node
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from foundation.core.sealed_text import seal_text
from frontend.pages.quotas import form as quota_form
from quotas.distribution.division import Keep
from quotas.models import (
    Budget,
    Override,
    OverrideAmount,
    Queue,
    QuotaNode,
    QuotaRequest,
    UserLimit,
)
from quotas.selectors.limits.pool_limits import pool_limits
from quotas.services.quota import quota_set
from quotas.services.quota_plan import QuotaAmount
from scheduling.lifecycle.transitions import add_event
from scheduling.models import Job, JobState, JobTemplate, PolicyReplay, PriorityGrant, WorkspacePolicy
from telemetry.models import Price, TelemetrySource
from tenants.models import AccessKey, Member, Role, Tenant, User
from tenants.services.access_key import access_key_create
from tenants.services.invitation import user_invite
from tenants.services.tenant import tenant_archive
from tests.access.actors import ACTORS, VIEW, Actor
from tests.builders import clusters, jobs, quotas, tenancy

CARDS: Final = Resource.GPU_CARDS
_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
Right = tuple[str, str]


@dataclass(slots=True)
class Side:
    """A workspace with one thing of each kind; `names` replace placeholders in addresses and bodies.

    `secrets` are texts, each with the rights of which a reader needs one.
    """

    tenant: Tenant
    folder: Tenant
    hours: int
    names: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, tuple[Right, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An actor with its credentials: a bearer token for the API, a session for the console."""

    actor: Actor
    user: User | None
    token: str
    session: str


@dataclass(slots=True)
class AccessWorld:
    """Both sides together; `places` are the tenants by the words of `actors.INSIDE`."""

    cell: Cell
    cluster: Cluster
    flavor: Flavor
    nodes: list[Node]
    places: dict[str, Tenant]
    here: Side
    other: Side
    shared: dict[str, str] = field(default_factory=dict)
    actors: dict[str, SignedIn] = field(default_factory=dict)

    def names(self, *, mixed: bool = False) -> dict[str, str]:
        """Return the values of placeholders; `mixed`: the workspace is here, all else is the other's."""
        theirs = {f"other.{name}": value for name, value in self.other.names.items()}
        of = self.here.names
        if mixed:
            of = self.other.names | {name: of[name] for name in ("ws", "workspace", "tenant", "folder")}
        return self.shared | of | theirs


def build(actors: Iterable[Actor] = ACTORS.values()) -> AccessWorld:
    """Build the world, with all these actors signed in."""
    cell = clusters.cell()
    cluster = clusters.cluster(cell)
    flavor = clusters.flavor(cluster)
    root = tenancy.root()
    root.name = "Summit"
    root.save(update_fields=["name"])
    above, elsewhere = tenancy.folder("uplands"), tenancy.folder("lowlands")
    places = {
        "root": root,
        "above": above,
        "elsewhere": elsewhere,
        "here": tenancy.workspace("otters", above),
        "beside": tenancy.workspace("weasels", above),
        "other": tenancy.workspace("lemurs", elsewhere),
    }
    nodes = clusters.nodes(flavor, 2)
    for name, value in (("normal", 0), ("low", -5), ("steep", 1000), ("steeper", 1001), ("steepest", 1002)):
        jobs.priority_class(name, value)
    w = AccessWorld(
        cell,
        cluster,
        flavor,
        nodes,
        places,
        here=Side(places["here"], above, 7171),
        other=Side(places["other"], elsewhere, 8282),
    )
    quotas.gpu_quota(quotas.quota_node(cell, root), flavor, 20)
    for folder in (above, elsewhere):
        quotas.gpu_quota(quotas.quota_node(cell, folder), flavor, 16)
    _furnish(w, w.here)
    _furnish(w, w.other)
    _platform(w)
    for actor in actors:
        w.actors[actor.name] = _signed_in(w, actor)
    for side in (w.here, w.other):
        tenant = side.tenant
        record = audit_log.record_action(
            SYSTEM, "job.test", entity="job", entity_id=f"told-{tenant.slug}", tenant_id=tenant.pk
        )
        side.names["record"] = str(record.pk)
        side.secrets = _secrets(side)
    # A time of use in the future is not updated: reading with a key then writes nothing.
    AccessKey.unscoped.update(last_used_at=clock.now() + timedelta(days=1))
    return w


_HERE: Final = ("quota.view", "here")


def _furnish(w: AccessWorld, side: Side) -> None:
    """Create one thing of each kind for the workspace of a side."""
    word = side.tenant.slug
    mia = tenancy.user(f"mia-{word}")
    hand = tenancy.custom_role(side.tenant, f"hand-{word}", "tenant.view")
    spare_role = tenancy.custom_role(side.tenant, f"spare-{word}", "tenant.view")
    member = Member.unscoped.create(user=mia, tenant=side.tenant, custom_role=hand)
    robot = tenancy.service_account("robot", side.tenant)
    key = _key(robot, f"key-{word}")
    chief = tenancy.service_account("chief", side.tenant)
    tenancy.member(chief, side.tenant, Role.ADMIN)
    chief_prefix = _key(chief, f"chief-{word}").prefix
    queue = quotas.queue(w.cell, side.tenant, [w.flavor], name=f"queue-{word}", cards=8)
    spare_queue = quotas.queue(w.cell, side.tenant, [w.flavor], name=f"idle-{word}")
    node, above = quotas.quota_node(w.cell, side.tenant), quotas.quota_node(w.cell, side.folder)
    quotas.gpu_quota(node, w.flavor, 4)
    waiting = jobs.job(queue, mia, f"train-{word}", submitted_at=clock.now() - timedelta(hours=3))
    held = jobs.job(queue, mia, f"serve-{word}")
    jobs.allocate(held, w.nodes[0])
    quotas.reserve(queue, w.flavor, CARDS, 1)
    for made in (waiting, held):
        add_event(made, "noted", now=clock.now())
    rows = {
        "tenant": side.tenant,
        "folder": side.folder,
        "member": member,
        "role": hand,
        "spare_role": spare_role,
        "role_above": tenancy.custom_role(side.folder, f"above-{word}", VIEW),
        "node": node,
        "leaf": queue.node,
        "above_node": above,
        "job": waiting,
        "held": held,
        "task": held.tasks.get(),
        "template": _template(side.tenant),
        "flavor": w.flavor,
        "price": Price.unscoped.get_or_create(
            flavor=w.flavor, effective_at=clock.now() + timedelta(days=3), defaults={"gpu_hour": 2}
        )[0],
        "replay": PolicyReplay.unscoped.get_or_create(
            name="classical",
            cell=w.cell,
            defaults={"begin_at": clock.now() - timedelta(days=1), "end_at": clock.now()},
        )[0],
        **_quota_things(w, side, node, above, mia),
        **_alert_things(side.tenant, word, mia),
    }
    side.names = versions(rows) | {name: str(row.pk) for name, row in rows.items()} | _texts(w, side)
    side.names |= {
        "node.boxes": _boxes(node, w.flavor),
        "above_node.boxes": _boxes(above, w.flavor),
        "node.batch": urlencode({f"edit.{node.pk}.gpu.cards": 14, f"version.{node.pk}": node.version}),
        "queue.version": str(queue.version),
        "spare_queue.version": str(spare_queue.version),
        **{"account": robot.username, "account_id": str(robot.pk)},
        **{"prefix": key.prefix, "key_id": str(key.pk)},
        **{"chief": chief.username, "chief_prefix": chief_prefix},
    }


def _key(account: User, name: str) -> AccessKey:
    return access_key_create(acting_user=SYSTEM, user=account, name=name)[0]


def _template(tenant: Tenant) -> JobTemplate:
    return JobTemplate.unscoped.create(
        workspace=tenant, name=f"template-{tenant.slug}", text="kind: batch", saved_at=clock.now()
    )


def _texts(w: AccessWorld, side: Side) -> dict[str, str]:
    """Return the texts that addresses, forms and pages of a side use."""
    word, soon = side.tenant.slug, clock.now() + timedelta(days=2)
    return {
        "ws": word,
        "workspace": word,
        "tenant_name": side.tenant.name,
        "tenant.archived": str(side.tenant.version + 1),
        "folder_slug": side.folder.slug,
        "member_name": f"mia-{word}",
        "role_name": f"hand-{word}",
        "queue": f"queue-{word}",
        "spare_queue": f"idle-{word}",
        "train": f"train-{word}",
        "template_name": f"template-{word}",
        "told": f"told-{word}",
        "wish": f"wish-{word}",
        "revision_reason": f"revision-{word}",
        "loan": f"loan-{word}",
        "limit_amount": "4 GPUs",
        "policy_link": f"/ops/policies/{side.tenant.pk}",
        "grant_line": side.tenant.name,
        "alert_rule_name": f"rule-{word}",
        "alert_channel_name": f"channel-{word}",
        "budget_hours": f'aria-valuemax="{side.hours}"',
        "file_line": f"tenant: {word}",
        "policy_line": f'"tenant":"{word}"',
        "own_key": "deadbeef",
        "own_key_id": str(uuid.UUID(int=0)),
        "soon": soon.isoformat(),
        "past_begin": (clock.now() - timedelta(hours=6)).isoformat(),
        "past_end": (clock.now() - timedelta(hours=1)).isoformat(),
        "past_begin_typed": f"{clock.now() - timedelta(hours=6):%Y-%m-%d %H:%M}",
        "past_end_typed": f"{clock.now() - timedelta(hours=1):%Y-%m-%d %H:%M}",
        "soon_typed": f"{soon:%Y-%m-%d %H:%M}",
        "root": str(w.places["root"].pk),
    }


def _boxes(node: QuotaNode, flavor: Flavor) -> str:
    """Return the filled form of a quota, as a browser sends it."""
    shown = quota_form.form_of(pool_limits(SYSTEM, node, flavor))
    return urlencode({box.name: box.value for row in shown.rows for box in row.boxes})


def versions(rows: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions that a form sends, so that none is outdated."""
    for row in rows.values():
        row.refresh_from_db()
    return {f"{name}.version": str(row.version) for name, row in rows.items() if hasattr(row, "version")}


def _quota_things(w: AccessWorld, side: Side, node: QuotaNode, above: QuotaNode, mia: User) -> dict[str, Any]:
    now, tenant, word = clock.now(), side.tenant, side.tenant.slug
    lent = Override.unscoped.create(
        cell=w.cell,
        lender=above,
        borrower=node,
        starts_at=now - timedelta(hours=1),
        ends_at=now + timedelta(days=1),
        state="active",
        reason=f"loan-{word}",
    )
    OverrideAmount.unscoped.create(override=lent, flavor=w.flavor, resource=CARDS.value, amount=1)
    asked = QuotaRequest.unscoped.create(
        node=node,
        asker=mia,
        reason=f"wish-{word}",
        expires_at=now + timedelta(days=1),
        current=[],
        asked=[{"cluster": w.cluster.name, "flavor": w.flavor.name, "resource": CARDS.value, "nominal": 16}],
    )
    more = [QuotaAmount(w.flavor, CARDS, 13, Keep.AS_IS, Keep.AS_IS)]
    revision = quota_set(acting_user=SYSTEM, node=node, amounts=more, reason=f"revision-{word}")
    memory = [QuotaAmount(w.flavor, Resource.MEMORY, side.hours * 10**6, Keep.AS_IS, Keep.AS_IS)]
    on_top = quota_set(acting_user=SYSTEM, node=node, amounts=memory, reason="more", on_top=True)
    steep = jobs.priority_class("steep")
    if not PriorityGrant.unscoped.filter(tenant=side.folder).exists():
        for name in ("steep", "steeper"):
            PriorityGrant.unscoped.create(tenant=side.folder, priority_class=jobs.priority_class(name))
    return {
        "override": lent,
        "quota_request": asked,
        "revision": revision,
        "on_top": on_top,
        "budget": Budget.unscoped.create(tenant=tenant, gpu_hours=side.hours),
        "limit": UserLimit.unscoped.create(workspace=tenant, resource=CARDS.value, amount=4),
        "limit_of_one": UserLimit.unscoped.create(
            workspace=tenant, user=mia, resource=Resource.GPU_MEMORY.value, amount=side.hours
        ),
        "grant": PriorityGrant.unscoped.create(tenant=tenant, priority_class=steep),
        "policy": WorkspacePolicy.unscoped.create(tenant=tenant, idle_timeout_s=side.hours, version=1),
    }


def _alert_things(tenant: Tenant | None, word: str, author: User) -> dict[str, Any]:
    rule = AlertRule.unscoped.create(
        tenant=tenant, name=f"rule-{word}", metric="job.pending_s", threshold=1e9, enabled=False
    )
    channel = NotificationChannel.unscoped.create(
        tenant=tenant,
        name=f"channel-{word}",
        kind="webhook",
        sealed_address=seal_text("http://127.0.0.1:9/"),
    )
    now = clock.now()
    silence = Silence.unscoped.create(
        tenant=tenant, starts_at=now - timedelta(hours=1), ends_at=now + timedelta(days=1), created_by=author
    )
    prefix = "platform" if tenant is None else "alert"
    held = "platform_silence" if tenant is None else "silence"
    found = {f"{prefix}_rule": rule, f"{prefix}_channel": channel, held: silence}
    if tenant is not None:
        found["message"] = UserMessage.unscoped.create(
            user=author,
            tenant=tenant,
            kind="request",
            event="approved",
            facts={"tenant": f"message-{word}"},
            path="/ops/overview",
            source="test",
        )
    return found


def _secrets(side: Side) -> dict[str, tuple[Right, ...]]:
    """Return texts that are secret, each with the rights of which one suffices to read it."""
    word, names = side.tenant.slug, side.names
    view, told, any_role = ("tenant.view", "here"), ("audit.view", "here"), ("", "here")
    look = ("cluster.view", "platform")
    job, quota, edit = (("job.view", "here"), look, told), (_HERE, told), ("member.edit", "here")
    admins = ("member.edit", "platform")
    named = (view, any_role, look, admins, ("quota.view", "above"))
    found: dict[str, tuple[Right, ...]] = {
        names["tenant"]: (view, any_role),
        word: named,
        side.tenant.name: named,
        f"mia-{word}": (view, told, look, admins, *quota, *job),
        names["member"]: (view, told),
        names["role"]: (view, told),
        names["role_name"]: (view, told),
        names["prefix"]: (edit, told),
        names["chief_prefix"]: (edit, told),
        names["chief"]: (view, edit, told, admins),
        names["role_above"]: (view, told),
        f"above-{word}": (view, told),
        names["account"]: (view, edit, told, admins),
        names["grant"]: (view, told),
        names["record"]: (told,),
        f"told-{word}": (told,),
        "Summit": (("tenant.view", "root"), ("quota.view", "root")),
        names["override"]: (_HERE, ("quota.view", "above"), told),
        f"loan-{word}": (_HERE, ("quota.view", "above"), told),
    }
    found |= dict.fromkeys(
        (names["alert_rule"], names["alert_channel"], names["silence"], f"rule-{word}", f"channel-{word}"),
        (view, look, told),
    )
    found |= dict.fromkeys(
        (
            *(names[name] for name in ("job", "held", "task", "template")),
            *(f"{kind}-{word}" for kind in ("train", "serve", "template")),
        ),
        job,
    )
    limited = (
        *("node", "leaf", "quota_request", "revision", "on_top", "budget", "limit", "limit_of_one"),
        *("queue", "spare_queue"),
    )
    found |= {names[name]: quota for name in limited}
    found |= dict.fromkeys((f"wish-{word}", f"revision-{word}"), quota)
    found |= {names["queue"]: (*quota, *job)}
    # An actor that divides the folder's quota sees the quota of each of its workspaces.
    memory = side.hours * 10**6
    for amount in (memory, memory - quotas.AMPLE[Resource.MEMORY]):
        found[str(amount)] = (*quota, ("quota.view", "above"))
    return found


def _platform(w: AccessWorld) -> None:
    """Create what belongs to no workspace."""
    pat = tenancy.user("pat")
    person = tenancy.user("pip")
    hand = tenancy.custom_role(None, "platform-hand", "tenant.view")
    guild = tenancy.group("guild", person)
    tenancy.group_member(guild, w.places["here"], Role.VIEWER)
    rows: dict[str, Any] = {
        "platform_member": Member.unscoped.create(user=pat, custom_role=hand),
        "platform_role": hand,
        "spare_platform_role": tenancy.custom_role(None, "spare-platform-hand", "tenant.view"),
        "user": pat,
        "person": person,
        "group": tenancy.group("crowd", person),
        "guild": guild,
        "node_id": w.nodes[0],
        "source": TelemetrySource.unscoped.create(
            cluster=w.cluster, name="dcgm", kind="dcgm", address="http://127.0.0.1:9/metrics"
        ),
        **_alert_things(None, "summit", pat),
    }
    steep = jobs.priority_class("steep")
    invitation = user_invite(acting_user=SYSTEM, username="ivy")
    w.shared = (
        versions(rows | {"class": steep, "cell": w.cell})
        | {name: str(row.pk) for name, row in rows.items()}
        | {
            "username": tenancy.user("uma").username,
            "platform_role_name": hand.name,
            "cell": w.cell.name,
            "platform_rule_name": "rule-summit",
            "platform_channel_name": "channel-summit",
            "cluster": w.cluster.name,
            "flavor_name": w.flavor.name,
            "name": w.nodes[0].name,
            "uuid": w.nodes[0].devices.order_by("index")[0].uuid,
            "class": "steep",
            "class_id": str(steep.pk),
            "cluster_id": str(w.cluster.pk),
            "invited": str(invitation.user.pk),
            "invitation": invitation.path.rpartition("/")[2],
        }
    )


def _signed_in(w: AccessWorld, actor: Actor) -> SignedIn:
    if actor.state == "nobody":
        return SignedIn(actor, None, "", "")
    if actor.service:
        user = tenancy.service_account(actor.name, w.places["here"])
    else:
        user = tenancy.user(f"actor-{actor.name}".replace(" ", "-"))
    whom: dict[str, Any] = {"group": tenancy.group(actor.name, user)} if actor.group else {"user": user}
    for number, (place, role) in enumerate(actor.grants):
        tenant = w.places.get(place)
        if isinstance(role, str):
            Member.unscoped.create(**whom, tenant=tenant, role=Role(role))
        else:
            own = tenancy.custom_role(tenant, f"{actor.name} {number}", *role)
            Member.unscoped.create(**whom, tenant=tenant, custom_role=own)
    key, token = access_key_create(acting_user=SYSTEM, user=user, name=actor.name, scopes=actor.scopes)
    session = _session(user)
    _spoil(user, key, actor.state)
    return SignedIn(actor, user, token, session)


def _session(user: User) -> str:
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = _BACKEND
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


def _spoil(user: User, key: AccessKey, state: str) -> None:
    """Put the account or its key into `state`."""
    ago = clock.now() - timedelta(hours=1)
    if state == "closed":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif state == "one-time":
        User.objects.filter(pk=user.pk).update(must_change_password=True)
    elif state == "expired":
        AccessKey.unscoped.filter(pk=key.pk).update(expires_at=ago)
    elif state == "revoked":
        AccessKey.unscoped.filter(pk=key.pk).update(revoked_at=ago)


# What is prepared just before a request, and rolled back with it


def _own(
    model: Any, name: str, column: str, **values: Any
) -> Callable[[AccessWorld, dict[str, str], User], None]:
    def arrange(w: AccessWorld, names: dict[str, str], user: User) -> None:
        model.unscoped.filter(pk=names[name]).update(**{column: user.pk}, **values)

    return arrange


def _suspended(w: AccessWorld, names: dict[str, str], user: User) -> None:
    Job.unscoped.filter(pk=names["job"]).update(state=JobState.SUSPENDED)


def _running(w: AccessWorld, names: dict[str, str], user: User) -> None:
    names["job"] = names["held"]


def _own_running(w: AccessWorld, names: dict[str, str], user: User) -> None:
    _running(w, names, user)
    Job.unscoped.filter(pk=names["held"]).update(submitted_by=user)


def _ended(w: AccessWorld, names: dict[str, str], user: User) -> None:
    Job.unscoped.filter(pk=names["job"]).update(state=JobState.FAILED, finished_at=clock.now())


def _own_ended(w: AccessWorld, names: dict[str, str], user: User) -> None:
    _ended(w, names, user)
    Job.unscoped.filter(pk=names["job"]).update(submitted_by=user)


def _own_key(w: AccessWorld, names: dict[str, str], user: User) -> None:
    made = access_key_create(acting_user=SYSTEM, user=user, name="spare")[0]
    names |= {"own_key": made.prefix, "own_key_id": str(made.pk)}


def _own_message(w: AccessWorld, names: dict[str, str], user: User) -> None:
    UserMessage.unscoped.filter(pk=names["message"]).update(user=user)


def _waits_in_spare(w: AccessWorld, names: dict[str, str], user: User) -> None:
    spare = Queue.unscoped.get(name=names["spare_queue"])
    Job.unscoped.filter(pk=names["job"]).update(queue=spare)


def _expired(w: AccessWorld, names: dict[str, str], user: User) -> None:
    ago = clock.now() - timedelta(hours=1)
    User.objects.filter(pk=user.pk).update(must_change_password=True, password_expires_at=ago)


def _archived(w: AccessWorld, names: dict[str, str], user: User) -> None:
    tenant_archive(acting_user=SYSTEM, tenant=Tenant.unscoped.get(pk=names["tenant"]))


def _offered(w: AccessWorld, names: dict[str, str], user: User) -> None:
    asked = QuotaRequest.unscoped.get(pk=names["quota_request"])
    decider = w.actors["platform-admin"].user
    offer = [{**asked.asked[0], "nominal": 15}]
    QuotaRequest.unscoped.filter(pk=asked.pk).update(state="countered", counter=offer, decided_by=decider)


def _own_offer(w: AccessWorld, names: dict[str, str], user: User) -> None:
    _offered(w, names, user)
    QuotaRequest.unscoped.filter(pk=names["quota_request"]).update(asker=user)


def _offer_of_closed(w: AccessWorld, names: dict[str, str], user: User) -> None:
    _own_offer(w, names, user)
    QuotaRequest.unscoped.filter(pk=names["quota_request"]).update(decided_by=w.actors["closed"].user)


def _without_loans(w: AccessWorld, names: dict[str, str], user: User) -> None:
    Override.unscoped.filter(pk=names["override"]).delete()


ARRANGED: Final[dict[str, Callable[[AccessWorld, dict[str, str], User], None]]] = {
    "own-job": _own(Job, "job", "submitted_by_id"),
    "own-suspended": _own(Job, "job", "submitted_by_id", state=JobState.SUSPENDED),
    "suspended": _suspended,
    "running": _running,
    "own-running": _own_running,
    "ended": _ended,
    "own-ended": _own_ended,
    "waits-in-spare": _waits_in_spare,
    "own-key": _own_key,
    "own-message": _own_message,
    "expired": _expired,
    "own-request": _own(QuotaRequest, "quota_request", "asker_id"),
    "offered": _offered,
    "own-offer": _own_offer,
    "offer-of-closed": _offer_of_closed,
    "archived": _archived,
    "without-loans": _without_loans,
}
