"""A refusal never names a tenant, or reports an amount, that the refused user cannot see."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from foundation.core import clock
from foundation.core.errors import AllotmentError, Conflict, PermissionDenied
from foundation.models import AuditRecord
from quotas.files import FileFormat
from quotas.models import QuotaRevision, RequestState
from quotas.services.errors import OfferWithdrawn
from quotas.services.overrides.override import LoanAmount, override_create, override_end, override_move_end
from quotas.services.quota import NodeAmounts, QuotaAmount, quota_change, quota_set
from quotas.services.quota_files.quota_file import QuotaFile, quota_file_check
from quotas.services.quota_preview import quota_preview
from quotas.services.quota_revert import quota_revert
from quotas.services.requests import quota_request as requests
from tenants.models import Role, User
from tests.builders import tenancy
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.django_db
FOREIGN = ("team-b", "Team B", "team b")


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def amounts(here: Department, nominal: int) -> list[QuotaAmount]:
    return [QuotaAmount(here.flavor, CARDS, nominal, 3, 3)]


def both(here: Department) -> QuotaRevision:
    """Return a revision of the folder's admin that changes both teams, followed by a change of team B."""
    changes = [NodeAmounts(node, [QuotaAmount(here.flavor, CARDS, 9)]) for node in (here.node_a, here.node_b)]
    made = quota_change(acting_user=here.anna, cell_id=here.cell.pk, changes=changes)
    quota_set(acting_user=here.anna, node=here.node_b, amounts=[QuotaAmount(here.flavor, CARDS, 10)])
    assert made is not None
    return made


def test_a_refused_acceptance_does_not_reveal_what_others_have(here: Department) -> None:
    asked = [{"flavor": "a100", "resource": "gpu.cards", "nominal": 16}]
    made = requests.quota_request_create(acting_user=here.ed, node=here.node_a, asked=asked, reason="more")
    offer = [{"flavor": "a100", "resource": "gpu.cards", "nominal": 12}]
    requests.quota_request_counter(acting_user=here.anna, request=made, offer=offer)
    quota_set(acting_user=here.anna, node=here.node_b, amounts=[QuotaAmount(here.flavor, CARDS, 14)])

    with pytest.raises(OfferWithdrawn) as refused:
        requests.quota_request_accept(acting_user=here.ed, request=made)

    assert (refused.value.code, refused.value.numbers, refused.value.errors) == ("OFFER_GONE", {}, ())
    assert not any(name in refused.value.detail for name in (*FOREIGN, "14", "Research"))
    made.refresh_from_db()
    assert made.state == RequestState.COUNTERED
    told = AuditRecord.unscoped.get(action="quota-request.offer-gone")
    assert (told.tenant_id, "Team B" in str(told.after)) == (here.folder.pk, True)


def test_only_who_decides_about_all_of_a_revision_learns_that_it_was_changed_since(here: Department) -> None:
    revision = both(here)

    for person in (here.adam, here.ed, tenancy.user("vera", here.a, Role.VIEWER)):
        with pytest.raises(AllotmentError) as refused:
            quota_revert(acting_user=person, revision=revision)
        assert refused.value.code in ("PERMISSION_DENIED", "NOT_FOUND")
        assert not any(name in refused.value.detail for name in FOREIGN)
    with pytest.raises(Conflict, match="Team B"):
        quota_revert(acting_user=here.anna, revision=revision)


def test_who_divides_a_workspace_takes_that_back(here: Department) -> None:
    quota_set(acting_user=here.adam, node=here.queue_a.node, amounts=[QuotaAmount(here.flavor, CARDS, 5)])
    revision = QuotaRevision.unscoped.latest("pk")

    quota_revert(acting_user=here.adam, revision=revision)

    assert here.own_nominal(here.queue_a.node) == 8


def test_a_tenant_between_two_nodes_is_not_named_to_users_who_cannot_see_it(here: Department) -> None:
    role = tenancy.custom_role(None, "Reader", "quota.view")
    reader = tenancy.user("reader")
    for team in (here.a, here.b):
        tenancy.member(reader, team, Role.VIEWER)
    assert role
    with pytest.raises(PermissionDenied) as refused:
        quota_set(acting_user=reader, node=here.node_a, amounts=amounts(here, 9))
    assert "Research" not in refused.value.detail


def attempts(here: Department) -> list[Callable[[User], object]]:
    """Return everything about quota that can be refused, on objects that a user of team A can reach."""
    soon = clock.now() + timedelta(hours=2)
    loan = override_create(
        acting_user=here.anna, lender=here.node, borrower=here.node_a,
        amounts=[LoanAmount(here.flavor, CARDS, 1)], starts_at=None, ends_at=soon,
    )  # fmt: skip
    foreign = override_create(
        acting_user=here.anna, lender=here.queue_b.node, borrower=here.node_a,
        amounts=[LoanAmount(here.flavor, CARDS, 1)], starts_at=None, ends_at=soon,
    )  # fmt: skip
    revision = both(here)
    items = [LoanAmount(here.flavor, CARDS, 99)]
    text = "tenant,queue,flavor,resource,nominal\n{},{},a100,gpu.cards,{}\n"
    nodes = [here.node, here.node_a, here.node_b, here.queue_a.node, here.queue_b.node]
    found: list[Callable[[User], object]] = [
        lambda who: quota_revert(acting_user=who, revision=revision),
        lambda who: override_end(acting_user=who, override=loan),
        lambda who: override_move_end(acting_user=who, override=foreign, ends_at=soon + timedelta(days=1)),
    ]
    for node in nodes:
        for nominal in (0, 5, 99):
            change = [NodeAmounts(node, [QuotaAmount(here.flavor, CARDS, nominal)])]
            bordered = [NodeAmounts(node, amounts(here, nominal))]
            found += [
                lambda who, c=change: quota_change(acting_user=who, cell_id=here.cell.pk, changes=c),
                lambda who, c=bordered: quota_change(acting_user=who, cell_id=here.cell.pk, changes=c),
                lambda who, c=change: quota_preview(acting_user=who, cell_id=here.cell.pk, changes=c),
            ]
        for other in nodes:
            found.append(
                lambda who, one=node, two=other: override_create(
                    acting_user=who, lender=one, borrower=two, amounts=items, starts_at=None, ends_at=soon
                )
            )
    for tenant, queue in (("team-a", ""), ("team-a", "default"), ("team-a", "none"), ("research", "")):
        file = QuotaFile(text.format(tenant, queue, 99), FileFormat.CSV, "q.csv")
        found.append(lambda who, file=file: quota_file_check(acting_user=who, file=file))
    return found


def test_no_refusal_names_who_is_out_of_sight(here: Department) -> None:
    told = []
    viewer = tenancy.user("vera", here.a, Role.VIEWER)
    for attempt in attempts(here):
        for who in (here.adam, here.ed, viewer):
            try:
                attempt(who)
            except AllotmentError as error:
                words = [error.detail, str(error.numbers), *(f"{e.field} {e.message}" for e in error.errors)]
                told += [" ".join(words)]

    assert len(told) > 100
    assert [line for line in told if any(name in line for name in (*FOREIGN, "Research"))] == []
