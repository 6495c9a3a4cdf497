"""Moving a tenant needs every right that others gain or lose by the move."""

from __future__ import annotations

import pytest

from foundation.core.errors import PermissionDenied
from tenants.access import grants, permissions
from tenants.access.permissions import Permission
from tenants.models import Member, Role, Tenant, User
from tenants.selectors.tenant_move import tenant_move_preview
from tenants.services.tenant_move import tenant_move
from tests.builders import tenancy

pytestmark = pytest.mark.django_db
TREE = ("tenant.view", "tenant.edit")


class Company:
    """The departments Research (with Lab, with the team) and Products (with Tools)."""

    def __init__(self) -> None:
        self.research, self.products = tenancy.folder("research"), tenancy.folder("products")
        self.lab, self.tools = tenancy.folder("lab", self.research), tenancy.folder("tools", self.products)
        self.team = tenancy.workspace("team", self.lab)

    def mover(self, *roles: tuple[Tenant, tuple[str, ...] | Role]) -> User:
        person = tenancy.user("mover")
        for number, (place, role) in enumerate(roles):
            if isinstance(role, Role):
                tenancy.member(person, place, role)
            else:
                made = tenancy.custom_role(place, f"Mover {number}", *role)
                Member.unscoped.create(user=person, tenant=place, custom_role=made)
        return person

    def refused(self, by: User, to: Tenant, team: Tenant | None = None) -> str:
        """The code of the refusal, of the move and of its preview alike."""
        codes = set()
        for act in (
            lambda: tenant_move_preview(viewer=by, tenant=team or self.team, parent=to),
            lambda: tenant_move(acting_user=by, tenant=team or self.team, parent=to),
        ):
            with pytest.raises(PermissionDenied) as refused:
                act()
            codes.add(refused.value.code)
        (code,) = codes
        return code


@pytest.fixture
def here(db: None) -> Company:
    return Company()


def test_no_user_moves_a_tenant_to_where_they_have_more_rights(here: Company) -> None:
    mover = here.mover((here.research, TREE), (here.products, Role.ADMIN))
    assert here.refused(mover, here.products) == "CANNOT_GRANT"
    assert not permissions.has_permission(mover, Permission.JOB_STOP_ANY, here.team)


def test_no_user_moves_a_tenant_to_where_a_friend_has_more_rights(here: Company) -> None:
    mover = here.mover((here.research, TREE), (here.products, TREE))
    friend = tenancy.user("friend")
    tenancy.group_member(tenancy.group("friends", friend), here.products, Role.EDITOR)
    assert here.refused(mover, here.tools) == "CANNOT_GRANT"
    assert not permissions.has_permission(friend, Permission.JOB_SUBMIT, here.team)


def test_no_user_moves_a_tenant_deeper_to_let_others_in(here: Company) -> None:
    inner = tenancy.folder("inner", here.lab)
    tenancy.user("friend", inner, Role.ADMIN)
    assert here.refused(here.mover((here.research, TREE)), inner) == "CANNOT_GRANT"


def test_no_user_moves_a_tenant_away_from_an_auditor(here: Company) -> None:
    auditor = tenancy.custom_role(here.research, "Auditor", "tenant.view", "audit.view")
    Member.unscoped.create(user=tenancy.user("eve"), tenant=here.research, custom_role=auditor)
    mover = here.mover((here.research, TREE), (here.products, TREE))
    assert here.refused(mover, here.products) == "CANNOT_GRANT"


def test_no_user_moves_a_tenant_out_of_a_department_without_a_right_there(here: Company) -> None:
    mover = here.mover((here.lab, Role.ADMIN), (here.tools, Role.ADMIN))
    assert here.refused(mover, here.tools) == "PERMISSION_DENIED"

    tenancy.member(mover, here.research, Role.ADMIN)
    tenant_move(acting_user=mover, tenant=here.team, parent=here.tools)


def test_a_key_moves_no_tenant_whose_rights_it_could_not_give(here: Company) -> None:
    tenancy.user("lea", here.products, Role.ADMIN)
    mover = here.mover((tenancy.root(), Role.ADMIN))
    with grants.remember_grants():
        grants.bind_to_scopes(mover.pk, ["tenant.edit"])
        assert here.refused(mover, here.products) == "SCOPE_MISSING"


@pytest.mark.parametrize("above", [True, False])
def test_admins_of_both_sides_and_of_what_is_above_move_as_before(here: Company, above: bool) -> None:
    for name, place in (("lea", here.research), ("pia", here.products), ("tom", here.tools)):
        tenancy.user(name, place, Role.ADMIN)
    places = [tenancy.root()] if above else [here.research, here.products]
    mover = here.mover(*((place, Role.ADMIN) for place in places))
    tenant_move(acting_user=mover, tenant=here.team, parent=here.tools)
    assert Tenant.unscoped.get(pk=here.team.pk).parent == here.tools


def test_who_keeps_a_right_by_another_role_is_no_obstacle_within_one_folder(here: Company) -> None:
    beside = tenancy.folder("beside", here.research)
    mover = here.mover((here.research, TREE))
    tenancy.user("lea", here.research, Role.ADMIN)
    tenant_move(acting_user=mover, tenant=here.team, parent=beside)
    assert Tenant.unscoped.get(pk=here.team.pk).parent == beside
