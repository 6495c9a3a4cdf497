"""Keys of node agents: issued for a token that the cluster confirms, or created by hand; checked, and
revoked.

A key is `aga_<prefix>_<secret>`, stored like access keys: by prefix and hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from clusters.backends.base import BackendUnavailable
from clusters.backends.registry import BackendMissing, backend_for
from clusters.models import Cluster, Node
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM, Actor
from foundation.core.errors import AllotmentError, FieldError, Invalid, NotFound, PermissionDenied
from foundation.sql import row_scope
from telemetry.models import AgentKey
from tenants.access import permissions
from tenants.access.permissions import Permission

_MARK: Final = "aga"
LIFE: Final = timedelta(hours=24)
LONGEST_LIFE: Final = timedelta(days=400)
_TOUCH_EVERY: Final = timedelta(minutes=1)
_LIVE_MOST: Final = 5


class TokenUnconfirmed(AllotmentError):
    """The cluster that has to confirm a token does not answer."""

    code = "CLUSTER_SILENT"
    status = 503


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _make(node: Node, expires_at: datetime, *, manual: bool) -> tuple[AgentKey, str]:
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = AgentKey.unscoped.create(
        node=node, prefix=prefix, secret_hash=_hash(secret), expires_at=expires_at, manual=manual
    )
    return key, f"{_MARK}_{prefix}_{secret}"


def _note(actor: Actor, verb: str, key: AgentKey, node: Node) -> None:
    after = {"prefix": key.prefix, "node": node.name, "expires_at": key.expires_at.isoformat()}
    audit_log.record_action(actor, f"agent-key.{verb}", entity="agent-key", entity_id=key.pk, after=after)


def _found(cluster: str, node: str) -> Node | None:
    try:
        named = Q(pk=uuid.UUID(cluster))
    except ValueError:
        named = Q(name=cluster)
    clusters = Cluster.unscoped.filter(named)
    rows = Node.unscoped.select_related("cluster").filter(cluster__in=clusters, name=node, present=True)
    return rows.first()


@row_scope.whole()
def agent_key_exchange(*, token: str, cluster: str, node: str) -> tuple[AgentKey, str]:
    """Issue a key to an agent that sends the token of its service account; valid for 24 hours.

    The five newest such keys of a node stay valid, so that a lost answer does no harm.
    Raises: PermissionDenied if the cluster does not confirm it, and also for clusters and nodes that do not
    exist; TokenUnconfirmed.
    """
    refusal = PermissionDenied(_("The cluster does not confirm that the token is the node agent's."))
    found = _found(cluster, node)
    if found is None:
        raise refusal
    try:
        confirmed = backend_for(found.cluster).verify_agent(token, found.name)
    except (BackendUnavailable, BackendMissing) as error:
        raise TokenUnconfirmed(_("The cluster is unreachable. Try again later.")) from error
    if not confirmed:
        raise refusal
    with transaction.atomic():
        key, secret = _make(found, clock.now() + LIFE, manual=False)
        live_keys = AgentKey.unscoped.filter(node=found, manual=False).order_by("-created_at", "-id")
        older = [row.pk for row in live_keys[_LIVE_MOST:]]
        AgentKey.unscoped.filter(pk__in=older).delete()
        _note(SYSTEM, "issue", key, found)
    return key, secret


@transaction.atomic
def agent_key_create(
    *, acting_user: Actor, cluster: str, node: str, expires_at: datetime | None = None
) -> tuple[AgentKey, str]:
    """Create a key by hand, for an agent without a token of its cluster; valid for 400 days at most.

    Raises: PermissionDenied without `cluster.edit`; NotFound; Invalid for a time in the past or too far
    ahead.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    now = clock.now()
    until = expires_at or now + LONGEST_LIFE
    if not now < until <= now + LONGEST_LIFE:
        message = _("Select a time within the next %(days)s days.") % {"days": LONGEST_LIFE.days}
        raise Invalid(message, errors=[FieldError("expires_at", "RANGE", message)])
    found = _found(cluster, node)
    if found is None:
        raise NotFound(_("Node not found."))
    key, secret = _make(found, until, manual=True)
    _note(acting_user, "create", key, found)
    return key, secret


@transaction.atomic
def agent_key_revoke(*, acting_user: Actor, key_id: uuid.UUID) -> None:
    """Revoke a key at once. Raises: PermissionDenied without `cluster.edit`; NotFound."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    key = AgentKey.unscoped.select_related("node").filter(pk=key_id).first()
    if key is None:
        raise NotFound(_("Agent key not found."))
    if AgentKey.unscoped.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=clock.now()):
        _note(acting_user, "revoke", key, key.node)


@row_scope.whole()
def agent_key_check(token: str) -> AgentKey | None:
    """Return the live key of a token, with its node, or None. Record its use at most once a minute."""
    mark, _mark, rest = token.partition("_")
    prefix, _mark, secret = rest.partition("_")
    if mark != _MARK or not secret:
        return None
    live = AgentKey.unscoped.filter(prefix=prefix, revoked_at__isnull=True, node__present=True)
    key = live.select_related("node").first()
    if key is None or not hmac.compare_digest(key.secret_hash, _hash(secret)):
        return None
    now = clock.now()
    if key.expires_at <= now:
        return None
    if key.last_used_at is None or now - key.last_used_at > _TOUCH_EVERY:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - _TOUCH_EVERY)
        AgentKey.unscoped.filter(stale, pk=key.pk).update(last_used_at=now)
    return key
