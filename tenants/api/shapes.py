"""Wire format of the tenant tree, members, roles, accounts and groups."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tenants.access.permissions import Permission
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.responses.pages import format_timestamp
from tenants.models import Tenant, TenantKind
from tenants.selectors.user import UserState

POINTS = [permission.value for permission in Permission]


class TenantSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=TenantKind.choices)
    slug = serializers.CharField()
    name = serializers.CharField()
    parent = serializers.UUIDField(source="parent_id", allow_null=True)  # type: ignore[assignment]
    archived_at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Tenant) -> dict[str, Any]:
        return {
            "id": str(instance.pk),
            "kind": instance.kind,
            "slug": instance.slug,
            "name": instance.name,
            "parent": str(instance.parent_id) if instance.parent_id else None,
            "archived_at": format_timestamp(instance.archived_at),
        }


class TenantCreateSerializer(StrictSerializer):
    parent = serializers.UUIDField(help_text="Parent folder.")  # type: ignore[assignment]
    kind = serializers.ChoiceField(choices=TenantKind.choices)
    name = serializers.CharField(max_length=120)
    slug = serializers.CharField(
        max_length=63,
        required=False,
        default="",
        allow_blank=True,
        help_text="Generated from the name if omitted; can't be changed later.",
    )


class TenantRenameSerializer(StrictSerializer):
    name = serializers.CharField(max_length=120)


class TenantMoveSerializer(StrictSerializer):
    parent = serializers.UUIDField(help_text="New parent folder.")  # type: ignore[assignment]


class RightSerializer(serializers.Serializer[Any]):
    role = serializers.CharField()
    tenant = serializers.CharField(
        source="tenant.slug", default=None, allow_null=True, help_text="null: the platform."
    )
    group = serializers.CharField(help_text="Group that grants the role, or empty.")


class AccessChangeSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    verdict = serializers.ChoiceField(choices=["gains", "loses", "changes"])
    before = RightSerializer(many=True)
    after = RightSerializer(many=True)
    gained = serializers.ListField(child=serializers.CharField())
    lost = serializers.ListField(child=serializers.CharField())


class EffectSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    text = serializers.CharField(help_text="In the caller's language.")
    numbers = serializers.DictField()


class MoveSerializer(serializers.Serializer[Any]):
    tenant = TenantSerializer()
    along = serializers.IntegerField(help_text="Child tenants that move too.")
    access = AccessChangeSerializer(many=True)
    effects = EffectSerializer(many=True)


class ArchivedSerializer(serializers.Serializer[Any]):
    tenant = TenantSerializer()
    effects = EffectSerializer(many=True)


class MemberSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    user = serializers.CharField(source="user.username", default=None, allow_null=True)
    group = serializers.CharField(source="group.name", default=None, allow_null=True)
    role = serializers.CharField(source="role_name")
    tenant = serializers.CharField(
        source="tenant.slug",
        default=None,
        allow_null=True,
        help_text="Tenant where the role is assigned; null: the platform.",
    )


class MemberRoleSerializer(StrictSerializer):
    role = serializers.CharField(max_length=60, help_text="A built-in role, or a custom one by name.")


class MemberCreateSerializer(MemberRoleSerializer):
    user = serializers.CharField(max_length=150, required=False, help_text="Either this or `group`.")
    group = serializers.CharField(max_length=120, required=False)


class PointSerializer(serializers.Serializer[Any]):
    point = serializers.ChoiceField(choices=POINTS)
    sources = RightSerializer(many=True)


class EffectiveSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    service_account = serializers.BooleanField()
    permissions = PointSerializer(many=True)


class RoleSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField()
    points = serializers.ListField(child=serializers.CharField())
    tenant = serializers.CharField(source="tenant.slug", default=None, allow_null=True)


class RoleChangeSerializer(StrictSerializer):
    name = serializers.CharField(max_length=60, required=False)
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    points = serializers.ListField(
        child=serializers.ChoiceField(choices=POINTS), required=False, max_length=100
    )


class RoleCreateSerializer(RoleChangeSerializer):
    name = serializers.CharField(max_length=60)
    points = serializers.ListField(child=serializers.ChoiceField(choices=POINTS), max_length=100)


class UserSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    email = serializers.CharField()
    is_active = serializers.BooleanField()
    must_change_password = serializers.BooleanField()
    password_expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Expiry of an unchanged one-time password."
    )
    last_login = serializers.DateTimeField(allow_null=True)


class UserCreateSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    email = serializers.EmailField(required=False, default="", allow_blank=True)
    password = serializers.CharField(
        max_length=200,
        trim_whitespace=False,
        help_text=("Initial password; must be changed at the first sign-in."),
    )


class UserDetailSerializer(UserSerializer):
    invited = serializers.BooleanField(
        source="is_invited", help_text="The invitation has not been accepted yet."
    )
    state = serializers.ChoiceField(choices=[state.value for state in UserState])
    identity_providers = serializers.ListField(
        child=serializers.CharField(), help_text="Identity providers by which the person signed in."
    )
    access_keys = serializers.IntegerField(help_text="Number of valid access keys.")
    groups = serializers.ListField(child=serializers.CharField())
    roles = RightSerializer(many=True)


class InvitationCreateSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    email = serializers.EmailField(required=False, default="", allow_blank=True)


class InvitationSerializer(serializers.Serializer[Any]):
    user = UserSerializer()
    path = serializers.CharField(
        allow_null=True, help_text="Page of the console that sets the first password. Shown once."
    )
    expires_at = serializers.DateTimeField()
    emailed = serializers.BooleanField(help_text="The link is sent to the email address too.")


class AccessEndSerializer(StrictSerializer):
    sessions = serializers.BooleanField(default=True, help_text="End all sessions.")
    keys = serializers.BooleanField(default=True, help_text="Revoke all access keys.")


class AccessEndedSerializer(serializers.Serializer[Any]):
    sessions_ended = serializers.BooleanField()
    keys_revoked = serializers.IntegerField()


class UserChangeSerializer(StrictSerializer):
    is_active = serializers.BooleanField()


class PasswordSetSerializer(StrictSerializer):
    password = serializers.CharField(max_length=200, trim_whitespace=False)
    keep_keys = serializers.BooleanField(
        default=False, help_text="Keep the account's access keys; otherwise all are revoked."
    )


class PasswordResetSerializer(serializers.Serializer[Any]):
    password_expires_at = serializers.DateTimeField(help_text="Deadline to change the password.")
    keys_revoked = serializers.IntegerField()
    keys_kept = serializers.IntegerField()


class PasswordChangeSerializer(StrictSerializer):
    old = serializers.CharField(max_length=200, trim_whitespace=False)
    new = serializers.CharField(max_length=200, trim_whitespace=False)


class ServiceAccountSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    created_at = serializers.DateTimeField(source="date_joined")


class ServiceAccountCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=63, help_text="The part before the @.")


class GroupSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    claim = serializers.CharField(allow_null=True, help_text="Identity provider group, if any.")
    size = serializers.IntegerField(default=0)


class GroupChangeSerializer(StrictSerializer):
    name = serializers.CharField(max_length=120, required=False)
    claim = serializers.CharField(max_length=200, required=False, allow_blank=True)


class GroupCreateSerializer(GroupChangeSerializer):
    name = serializers.CharField(max_length=120)


class PersonSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)


class KeyRotateSerializer(StrictSerializer):
    grace_s = serializers.IntegerField(
        min_value=0, max_value=604_800, default=0, help_text="Validity of the old key in seconds."
    )
