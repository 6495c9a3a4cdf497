"""Permission points, and the built-in roles as sets of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tenants.models import Role


class Permission(StrEnum):
    TENANT_VIEW = "tenant.view"
    TENANT_EDIT = "tenant.edit"
    MEMBER_EDIT = "member.edit"
    QUOTA_VIEW = "quota.view"
    QUOTA_EDIT = "quota.edit"
    QUEUE_EDIT = "queue.edit"
    POLICY_EDIT = "policy.edit"
    JOB_VIEW = "job.view"
    JOB_SUBMIT = "job.submit"
    JOB_STOP_OWN = "job.stop-own"
    JOB_STOP_ANY = "job.stop-any"
    CLUSTER_VIEW = "cluster.view"
    CLUSTER_EDIT = "cluster.edit"
    AUDIT_VIEW = "audit.view"


_P = Permission
_VIEWER: Final = frozenset({_P.TENANT_VIEW, _P.QUOTA_VIEW, _P.JOB_VIEW})
_EDITOR: Final = _VIEWER | {_P.JOB_SUBMIT, _P.JOB_STOP_OWN}
_ADMIN: Final = _EDITOR | {
    _P.TENANT_EDIT,
    _P.MEMBER_EDIT,
    _P.QUOTA_EDIT,
    _P.QUEUE_EDIT,
    _P.POLICY_EDIT,
    _P.JOB_STOP_ANY,
    _P.AUDIT_VIEW,
}

ROLE_PERMISSIONS: Final[dict[str, frozenset[Permission]]] = {
    Role.VIEWER: _VIEWER,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: _ADMIN,
    Role.PLATFORM_VIEWER: _VIEWER | {_P.CLUSTER_VIEW},
    Role.PLATFORM_ADMIN: frozenset(Permission),
    Role.AUDITOR: frozenset({_P.TENANT_VIEW, _P.AUDIT_VIEW}),
}

PLATFORM_POINTS: Final = frozenset({_P.CLUSTER_VIEW, _P.CLUSTER_EDIT})
"""Permissions that apply to the platform only: no role of a tenant may hold them."""

_NEEDED_VIEWS: Final = {
    _P.QUOTA_EDIT: {_P.QUOTA_VIEW},
    _P.QUEUE_EDIT: {_P.QUOTA_VIEW},
    _P.JOB_SUBMIT: {_P.JOB_VIEW, _P.QUOTA_VIEW},
    _P.JOB_STOP_OWN: {_P.JOB_VIEW},
    _P.JOB_STOP_ANY: {_P.JOB_VIEW},
    _P.CLUSTER_EDIT: {_P.CLUSTER_VIEW},
}

_KNOWN: Final = {point.value: point for point in Permission}


def points_of(words: object) -> frozenset[Permission]:
    """Return the permissions of stored words; a word that is no longer a permission is ignored."""
    return (
        frozenset(_KNOWN[word] for word in words if word in _KNOWN)
        if isinstance(words, list)
        else frozenset()
    )


def reach_of(scopes: frozenset[Permission]) -> frozenset[Permission]:
    """Return the scopes of a key with the view permissions that their use needs: a job is read before it is
    stopped.

    The views of the REST API check the scopes themselves, so that a key lists nothing beyond them.
    """
    views = (_NEEDED_VIEWS.get(point, frozenset[Permission]()) for point in scopes)
    return scopes.union({_P.TENANT_VIEW}, *views) if scopes else scopes
