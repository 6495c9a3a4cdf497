"""Signal handlers for rows of this package."""

from __future__ import annotations

from typing import Any

from allauth.account.signals import user_logged_in
from django.db.models.signals import post_delete, post_migrate, post_save

from tenants.access import grants, row_policies
from tenants.models import CustomRole, GroupMember, Member, Tenant
from tenants.sign_in import oidc


def connect_hooks() -> None:
    """Drop cached grants when a row they depend on is written; update groups at a sign-in."""
    for model in (Member, GroupMember, CustomRole, Tenant):
        post_save.connect(_forget, sender=model, dispatch_uid=f"grants-save-{model.__name__}")
        post_delete.connect(_forget, sender=model, dispatch_uid=f"grants-delete-{model.__name__}")

    row_policies.declare_own()
    post_migrate.connect(_protect, dispatch_uid="row-policies")

    user_logged_in.connect(oidc.follow_groups, dispatch_uid="oidc-groups")


def _protect(sender: Any, *, using: str, **_: Any) -> None:
    # The signal is sent for each app with models, after all of them are migrated.
    if sender is row_policies.last_app():
        row_policies.sync_policies(using)


def _forget(sender: object, **_: Any) -> None:
    grants.forget_grants()
