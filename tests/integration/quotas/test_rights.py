"""Nobody raises their own quota, and nobody makes keys for others."""

from __future__ import annotations

import pytest

from foundation.errors import NotFound, PermissionDenied
from foundation.quantities import Resource
from quotas.models import Quota
from quotas.services.quota import QuotaAmount, quota_set
from tenants.models import Role
from tenants.services.access_key import access_key_create, access_key_revoke
from tests.builders import tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def more(here: World) -> list[QuotaAmount]:
    return [QuotaAmount(here.flavor, Resource.GPU_CARDS, 1000)]


def test_an_admin_of_a_workspace_cannot_raise_its_own_quota() -> None:
    here = world()
    for user in (here.admin, here.editor, here.viewer):
        with pytest.raises((PermissionDenied, NotFound)):
            quota_set(acting_user=user, node=here.queue.node, amounts=more(here))
    assert not Quota.unscoped.filter(nominal=1000).exists()


def test_an_admin_above_it_can() -> None:
    here = world()
    above = tenancy.user("anna", here.workspace.parent, Role.ADMIN)
    quota_set(acting_user=above, node=here.queue.node, amounts=more(here))
    assert Quota.unscoped.get(nominal=1000).node == here.queue.node


def test_keys_are_made_and_ended_by_their_owner() -> None:
    here = world()
    key, token = access_key_create(acting_user=here.editor, user=here.editor, name="laptop")
    assert token.startswith("alt_")
    with pytest.raises(PermissionDenied):
        access_key_create(acting_user=here.admin, user=here.editor, name="not mine")
    with pytest.raises(PermissionDenied):
        access_key_revoke(acting_user=here.outsider, key=key)
    access_key_revoke(acting_user=here.editor, key=key)
    key.refresh_from_db()
    assert key.revoked_at is not None
