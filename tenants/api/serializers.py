"""Wire format of users, workspaces and access keys."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tenants.access.permissions import Permission
from tenants.api.requests.bodies import StrictSerializer

_POINTS = [permission.value for permission in Permission]


class MembershipSerializer(serializers.Serializer[Any]):
    tenant = serializers.CharField(
        source="tenant.slug", default=None, allow_null=True, help_text="null: the platform."
    )
    role = serializers.CharField(source="role_name", help_text="A built-in role, or a custom one by name.")
    group = serializers.CharField(
        source="group.name", default=None, allow_null=True, help_text="Group that grants the role."
    )


class MeSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    must_change_password = serializers.BooleanField(
        help_text="Only this and me/password are available until then."
    )
    password_expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Expiry of an unchanged one-time password."
    )
    platform_permissions = serializers.ListField(child=serializers.CharField())
    memberships = MembershipSerializer(many=True)


class WorkspaceSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    folder = serializers.CharField(source="parent.slug", default=None, allow_null=True)


class WorkspaceDetailSerializer(WorkspaceSerializer):
    permissions = serializers.ListField(child=serializers.CharField(), help_text="Your permissions.")


class AccessKeySerializer(serializers.Serializer[Any]):
    prefix = serializers.CharField()
    owner = serializers.CharField(source="user.username", help_text="You, or a service account.")
    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class AccessKeyCreatedSerializer(AccessKeySerializer):
    token = serializers.CharField(help_text="Shown once.")


class AccessKeyCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=_POINTS),
        default=list,
        max_length=100,
        help_text="Scopes of the key; empty: all permissions of its owner.",
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class WorkspaceKeyCreateSerializer(AccessKeyCreateSerializer):
    service_account = serializers.CharField(
        max_length=150, required=False, help_text="Owner of the key; default: you."
    )
