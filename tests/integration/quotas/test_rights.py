"""No user raises their own quota, and no user makes keys for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.core.errors import NotFound, PermissionDenied
from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaNode
from quotas.services.errors import ExceedsParent
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
    for user in (here.editor, here.viewer, here.outsider):
        with pytest.raises((PermissionDenied, NotFound)):
            quota_set(acting_user=user, node=here.queue.node, amounts=more(here))
    with pytest.raises(ExceedsParent):
        quota_set(acting_user=here.admin, node=here.queue.node, amounts=more(here))
    with pytest.raises(PermissionDenied):
        quota_set(acting_user=here.admin, node=parent_of(here), amounts=more(here))
    assert not Quota.unscoped.filter(own_nominal=1000).exists()


def test_an_admin_of_a_workspace_divides_what_it_has_but_sets_no_limits() -> None:
    here = world()
    amount = QuotaAmount(here.flavor, Resource.GPU_CARDS, 5)
    quota_set(acting_user=here.admin, node=here.queue.node, amounts=[amount])
    assert Quota.unscoped.get(node=here.queue.node, resource=Resource.GPU_CARDS).own_nominal == 5
    assert Quota.unscoped.get(node=parent_of(here), resource=Resource.GPU_CARDS).own_nominal == 3
    with pytest.raises(PermissionDenied):
        quota_set(
            acting_user=here.admin,
            node=here.queue.node,
            amounts=[replace(amount, borrowing_limit=None)],
        )


def test_an_admin_above_it_gives_what_is_there_and_creates_nothing() -> None:
    here = world()
    above = tenancy.user("anna", here.workspace.parent, Role.ADMIN)
    with pytest.raises(PermissionDenied):
        quota_set(acting_user=above, node=here.queue.node, amounts=more(here), on_top=True)
    with pytest.raises(ExceedsParent):
        quota_set(acting_user=above, node=parent_of(here), amounts=more(here))


def test_an_admin_of_the_platform_creates_quota() -> None:
    here = world()
    quota_set(acting_user=here.platform_admin, node=here.queue.node, amounts=more(here), on_top=True)
    assert Quota.unscoped.get(own_nominal=1000).node == here.queue.node


def parent_of(here: World) -> QuotaNode:
    assert here.queue.node.parent is not None
    return here.queue.node.parent


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
