"""Loans: they move quota for a while, and it returns by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from foundation.core.actor import SYSTEM
from foundation.core.errors import AllotmentError, Conflict, Invalid, NotFound, PermissionDenied
from foundation.models import AuditRecord, Hint
from quotas.models import (
    LedgerEntry,
    Override,
    OverrideState,
    PassedQuota,
    QuotaChangeSource,
    QuotaNode,
    QuotaRevision,
)
from quotas.selectors.changes.quota_history import quota_history
from quotas.services.errors import LenderShort, OverrideClosed, QuotaLent
from quotas.services.overrides.override import LoanAmount, override_create, override_end, overrides_sweep
from quotas.services.quota import QuotaAmount, quota_set
from quotas.services.quota_revert import quota_revert
from tenants.models import Member, Role, User
from tenants.selectors.tenant_move import tenant_move_preview
from tenants.services.tenant_move import tenant_move
from tests.builders import quotas, tenancy
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.django_db
T0 = datetime(2026, 5, 1, 8, tzinfo=UTC)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def lend(
    here: Department,
    cards: int,
    start: float | None,
    end: float,
    *,
    lender: QuotaNode | None = None,
    borrower: QuotaNode | None = None,
    by: User | None = None,
) -> Override:
    return override_create(
        acting_user=by or here.anna,
        lender=lender or here.queue_a.node,
        borrower=borrower or here.node_b,
        amounts=[LoanAmount(here.flavor, CARDS, cards, "amounts.0.")],
        starts_at=None if start is None else at(start),
        ends_at=at(end),
        reason="deadline",
    )


def sweep(hours: float) -> int:
    with time_machine.travel(at(hours), tick=False):
        return overrides_sweep(now=at(hours))


@time_machine.travel(T0, tick=False)
def test_a_loan_moves_quota_and_brings_it_back(here: Department) -> None:
    loan = lend(here, 3, None, 2)
    assert loan.state == OverrideState.ACTIVE
    assert here.sums() == (22, 5, 7)
    assert (
        here.own_nominal(here.queue_a.node),
        here.own_nominal(here.node_b),
        here.own_nominal(here.node),
    ) == (5, 3, 10)
    assert sweep(1.9) == 0
    assert sweep(2) == 1
    assert here.sums() == (22, 8, 4)
    assert sweep(2.1) == 0
    loan.refresh_from_db()
    assert (loan.state, loan.ended_at, loan.returned) == (OverrideState.ENDED, at(2), {})
    assert [r.source for r in QuotaRevision.unscoped.order_by("pk")] == [
        QuotaChangeSource.LOAN,
        QuotaChangeSource.LOAN_RETURNED,
    ]
    told = list(AuditRecord.unscoped.filter(entity="loan").order_by("pk").values_list("action", "tenant_id"))
    assert told == [
        (f"loan.{what}", team.pk) for what in ("create", "start", "end") for team in (here.a, here.b)
    ]
    assert Hint.unscoped.filter(topic="cycle", key=str(here.cell.pk)).exists()


@time_machine.travel(T0, tick=False)
def test_one_that_is_planned_starts_and_ends_though_ticks_were_missed(here: Department) -> None:
    loan = lend(here, 8, 1, 3)
    assert (loan.state, here.sums()) == (OverrideState.PLANNED, (22, 8, 4))
    assert sweep(0.5) == 0
    assert sweep(2.7) == 1
    assert here.sums() == (22, 0, 12)
    assert sweep(40) == 1
    assert here.sums() == (22, 8, 4)


@time_machine.travel(T0, tick=False)
def test_one_whose_whole_window_was_missed_never_starts(here: Department) -> None:
    loan = lend(here, 8, 1, 3)
    assert sweep(3) == 1
    loan.refresh_from_db()
    assert (loan.state, here.sums()) == (OverrideState.MISSED, (22, 8, 4))
    assert not QuotaRevision.unscoped.exists()


@time_machine.travel(T0, tick=False)
def test_loans_of_what_is_not_there_are_refused_by_sums(here: Department) -> None:
    with pytest.raises(LenderShort) as refused:
        lend(here, 9, None, 2)
    assert refused.value.detail == ("Team A / default has 8 GPUs of a100 unassigned; 9 GPUs requested.")
    assert refused.value.errors[0].field == "amounts.0.amount"
    lend(here, 5, 2, 6)
    with pytest.raises(LenderShort) as refused:
        lend(here, 4, 1, 3)
    assert refused.value.detail == (
        "Team A / default has 8 GPUs of a100 unassigned; other transfers leave 3 GPUs in this "
        "period; 4 GPUs requested."
    )
    assert refused.value.numbers == {"own_nominal": 8, "least": 3, "asked": 4, "resource": "gpu.cards"}
    lend(here, 3, 1, 3)
    lend(here, 8, 6, 9)
    assert Override.unscoped.count() == 3


@time_machine.travel(T0, tick=False)
def test_what_is_borrowed_can_be_lent_on_no_longer_than_one_has_it(here: Department) -> None:
    lend(here, 3, None, 4)
    with pytest.raises(LenderShort):
        lend(here, 2, 1, 5, lender=here.node_b, borrower=here.node_a)
    lend(here, 2, 1, 4, lender=here.node_b, borrower=here.node_a)
    assert sweep(1) == 1
    assert here.sums() == (22, 7, 5)
    assert sweep(5) == 2
    assert here.sums() == (22, 8, 4)


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [(2, 1, "WINDOW"), (1, 1, "WINDOW"), (-3, -1, "PAST"), (0, 9000, "TOO_LONG")],
)
@time_machine.travel(T0, tick=False)
def test_windows_that_cannot_be(here: Department, start: float, end: float, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        lend(here, 1, start, end)
    assert [(error.field, error.code) for error in refused.value.errors] == [("ends_at", code)]


@time_machine.travel(T0, tick=False)
def test_only_who_decides_about_both_lends(here: Department) -> None:
    with pytest.raises(NotFound):
        lend(here, 1, None, 1, by=here.adam)
    with pytest.raises(PermissionDenied):
        lend(here, 1, None, 1, by=here.ed, borrower=here.node_a)
    # Between what both belong to a workspace, its own admin may.
    lend(here, 1, None, 1, by=here.adam, borrower=here.node_a)
    with pytest.raises(Invalid):
        lend(here, 1, None, 1, borrower=here.queue_a.node)


@time_machine.travel(T0, tick=False)
def test_a_folder_lends_what_it_keeps_to_one_below_it(here: Department) -> None:
    lend(here, 10, None, 2, lender=here.node, borrower=here.queue_b.node)
    assert here.sums() == (22, 8, 14)
    sweep(2)
    assert here.sums() == (22, 8, 4)


@time_machine.travel(T0, tick=False)
def test_ending_early_and_cancelling(here: Department) -> None:
    active, planned = lend(here, 3, None, 5), lend(here, 2, 1, 5)
    with pytest.raises(AllotmentError):
        override_end(acting_user=here.ed, override=active)
    override_end(acting_user=here.anna, override=active)
    override_end(acting_user=here.anna, override=planned)
    assert here.sums() == (22, 8, 4)
    with pytest.raises(OverrideClosed):
        override_end(acting_user=here.anna, override=active)
    states = [Override.unscoped.get(pk=row.pk).state for row in (active, planned)]
    assert states == [OverrideState.ENDED, OverrideState.CANCELLED]
    assert sweep(9) == 0


@time_machine.travel(T0, tick=False)
def test_what_was_given_on_is_fetched_from_below(here: Department) -> None:
    lend(here, 3, None, 2)
    amounts = [QuotaAmount(here.flavor, CARDS, 7)]
    quota_set(acting_user=here.anna, node=here.queue_b.node, amounts=amounts)
    assert here.own_nominal(here.node_b) == 0
    sweep(2)
    assert here.sums() == (22, 8, 4)
    assert here.own_nominal(here.queue_b.node) == 4


@time_machine.travel(T0, tick=False)
def test_what_an_admin_took_away_meanwhile_returns_from_where_the_admin_put_it(here: Department) -> None:
    loan = lend(here, 3, None, 2)
    quota_set(acting_user=here.anna, node=here.queue_b.node, amounts=[QuotaAmount(here.flavor, CARDS, 0)])
    quota_set(acting_user=here.anna, node=here.node_b, amounts=[QuotaAmount(here.flavor, CARDS, 1)])
    sweep(2)
    loan.refresh_from_db()
    assert loan.returned == {}
    assert here.sums() == (22, 8, 0)
    assert here.own_nominal(here.node) == 14


@time_machine.travel(T0, tick=False)
def test_what_is_missing_at_the_start_is_waited_for(here: Department) -> None:
    loan = lend(here, 8, 1, 5)
    quota_set(acting_user=here.anna, node=here.queue_a.node, amounts=[QuotaAmount(here.flavor, CARDS, 6)])
    assert sweep(1) == 1
    assert sweep(2) == 0
    loan.refresh_from_db()
    assert loan.state == OverrideState.PLANNED
    assert loan.problem == "Team A / default has 6 GPUs of a100 unassigned; 8 GPUs requested."
    quota_set(acting_user=here.anna, node=here.queue_a.node, amounts=[QuotaAmount(here.flavor, CARDS, 8)])
    assert sweep(3) == 1
    loan.refresh_from_db()
    assert (loan.state, loan.problem) == (OverrideState.ACTIVE, "")


@time_machine.travel(T0, tick=False)
def test_the_history_shows_both_moves_and_sends_who_wants_them_back_to_the_loan(here: Department) -> None:
    lend(here, 3, None, 2)
    revision = quota_history(here.anna, here.folder).first()
    assert revision is not None
    changed = {c.node_id: (c.nominal_before, c.nominal_after) for c in revision.changes.all()}
    assert changed == {here.node_a.pk: (8, 5), here.queue_a.node_id: (8, 5), here.node_b.pk: (4, 7)}
    with pytest.raises(Conflict) as refused:
        quota_revert(acting_user=here.anna, revision=revision)
    assert refused.value.code == "REVISION_OF_LOAN"
    assert here.sums() == (22, 5, 7)


@time_machine.travel(T0, tick=False)
def test_what_runs_on_borrowed_quota_goes_on_above_it(here: Department) -> None:
    lend(here, 3, None, 2)
    LedgerEntry.unscoped.create(node=here.queue_b.node, flavor=here.flavor, resource=CARDS.value, reserved=7)
    assert sweep(2) == 1
    assert here.sums() == (22, 8, 4)
    assert LedgerEntry.unscoped.get(resource=CARDS.value).reserved == 7
    assert SYSTEM.get_username() == QuotaRevision.unscoped.latest("pk").actor_name


@time_machine.travel(T0, tick=False)
def test_the_end_of_a_loan_is_paid_by_who_got_it_and_not_by_the_largest(here: Department) -> None:
    friend = quotas.queue(here.cell, tenancy.workspace("friend", here.folder), [here.flavor])
    outside = quotas.quota_node(here.cell, tenancy.workspace("outside"))
    quotas.quota(outside, here.flavor, CARDS, 8)
    loan = lend(here, 8, None, 2, lender=outside, borrower=here.node, by=tenancy.platform_admin())
    quota_set(acting_user=SYSTEM, node=here.node, amounts=[QuotaAmount(here.flavor, CARDS, 30)])
    for node in (quotas.quota_node(here.cell, friend.workspace), friend.node):
        quota_set(acting_user=here.anna, node=node, amounts=[QuotaAmount(here.flavor, CARDS, 18)])
    assert (here.own_nominal(here.node), here.has(friend.node)) == (0, 18)

    sweep(2)

    loan.refresh_from_db()
    assert (loan.returned, here.has(outside)) == ({}, 8)
    assert (here.sums(), here.has(friend.node)) == ((22, 8, 4), 10)


@time_machine.travel(T0, tick=False)
def test_what_was_lent_on_comes_back_with_the_loan_that_it_came_from(here: Department) -> None:
    first = lend(here, 3, None, 9)
    quota_set(acting_user=here.anna, node=here.queue_b.node, amounts=[QuotaAmount(here.flavor, CARDS, 7)])
    second = lend(here, 7, None, 20, lender=here.queue_b.node, borrower=here.node)

    override_end(acting_user=here.anna, override=first)

    second.refresh_from_db()
    assert (second.state, here.sums()) == (OverrideState.ENDED, (22, 8, 4))


@time_machine.travel(T0, tick=False)
def test_no_tenant_moves_away_with_what_is_lent(here: Department) -> None:
    elsewhere, mule = tenancy.folder("products"), tenancy.workspace("mule", here.folder)
    taker = quotas.quota_node(here.cell, mule)
    outside = quotas.quota_node(here.cell, elsewhere)
    quotas.quota(outside, here.flavor, CARDS, 8)
    loan = lend(here, 8, None, 5, lender=outside, borrower=here.node, by=tenancy.platform_admin())
    quota_set(acting_user=here.anna, node=taker, amounts=[QuotaAmount(here.flavor, CARDS, 18)])
    with pytest.raises(Conflict) as refused:
        tenant_move(acting_user=SYSTEM, tenant=mule, parent=elsewhere)
    assert refused.value.code == "TENANT_HAS_LOANS"
    lend(here, 1, 3, 9, borrower=here.node_b)
    with pytest.raises(Conflict):
        tenant_move(acting_user=SYSTEM, tenant=here.b, parent=elsewhere)

    override_end(acting_user=SYSTEM, override=loan)
    tenant_move(acting_user=SYSTEM, tenant=mule, parent=elsewhere)
    assert (here.has(outside), here.sums()) == (18, (12, 8, 4))


@time_machine.travel(T0, tick=False)
def test_what_a_release_before_passed_on_unnoted_returns_by_the_history(here: Department) -> None:
    lend(here, 3, None, 2)
    night = quotas.queue(here.cell, here.b, [here.flavor], name="night")
    quota_set(acting_user=here.anna, node=night.node, amounts=[QuotaAmount(here.flavor, CARDS, 3)])
    PassedQuota.unscoped.all().delete()
    sweep(2)
    assert (here.sums(), here.own_nominal(here.queue_b.node), here.own_nominal(night.node)) == (
        (22, 8, 4),
        4,
        0,
    )


@time_machine.travel(T0, tick=False)
def test_a_folder_that_a_tenant_leaves_its_quota_to_pays_for_no_loan(here: Department) -> None:
    east, west = (tenancy.folder(name, here.folder) for name in ("east", "west"))
    left = quotas.quota_node(here.cell, east)
    mule = quotas.quota_node(here.cell, tenancy.workspace("mule", east))
    outside = quotas.quota_node(here.cell, tenancy.folder("products"))
    quotas.quota(mule, here.flavor, CARDS, 5)
    quotas.quota(outside, here.flavor, CARDS, 8)
    taker = quotas.quota_node(here.cell, tenancy.workspace("taker", here.folder))
    quota_set(acting_user=here.anna, node=taker, amounts=[QuotaAmount(here.flavor, CARDS, 10)])
    loan = lend(here, 8, None, 9, lender=outside, borrower=here.node, by=tenancy.platform_admin())
    for node, cards in ((here.node_a, 12), (here.node_b, 8)):
        quota_set(acting_user=here.anna, node=node, amounts=[QuotaAmount(here.flavor, CARDS, cards)])
    assert here.own_nominal(here.node) == 0
    mover = tenancy.user("mover")
    for folder in (east, west):
        role = tenancy.custom_role(folder, "Mover", "tenant.view", "tenant.edit", "quota.view")
        Member.unscoped.create(user=mover, tenant=folder, custom_role=role)

    tenant_move(acting_user=mover, tenant=mule.tenant, parent=west)
    assert (here.has(left), here.has(mule)) == (5, 0)
    override_end(acting_user=SYSTEM, override=loan)

    assert (here.has(left), here.has(outside)) == (5, 8)


@pytest.mark.parametrize("over_both", [True, False])
def test_quota_moves_with_a_tenant_only_for_who_divides_it_above_both(
    here: Department, over_both: bool
) -> None:
    elsewhere = tenancy.folder("products")
    target = quotas.quota_node(here.cell, elsewhere)
    mover = tenancy.user("mover")
    for folder in (here.folder, elsewhere):
        tenancy.member(mover, folder, Role.ADMIN)
    if over_both:
        tenancy.member(mover, tenancy.root(), Role.ADMIN)

    foreseen = tenant_move_preview(viewer=mover, tenant=here.a, parent=elsewhere).effects
    tenant_move(acting_user=mover, tenant=here.a, parent=elsewhere)

    codes = {effect.code for effect in foreseen}
    assert ("QUOTA_MOVES" in codes, "QUOTA_LEFT" in codes) == (over_both, not over_both)
    assert (here.has(here.node), here.has(target), here.has(here.node_a)) == (
        (14, 8, 8) if over_both else (22, 0, 0)
    )


@time_machine.travel(T0, tick=False)
def test_quota_that_is_only_lent_is_not_taken_out_of_the_tree(here: Department) -> None:
    lend(here, 8, None, 2, borrower=here.node_b)
    for node, cards in ((here.node_b, 9), (here.queue_b.node, 5)):
        quota_set(acting_user=here.anna, node=node, amounts=[QuotaAmount(here.flavor, CARDS, cards)])
    with pytest.raises(QuotaLent) as refused:
        quota_set(
            acting_user=SYSTEM,
            node=here.node_b,
            amounts=[QuotaAmount(here.flavor, CARDS, 5, place="amounts.0.")],
            on_top=True,
        )
    assert refused.value.detail == "Active transfers use 4 GPUs of a100 of Team B. End them first."
    assert refused.value.errors[0].field == "amounts.0.nominal"
    sweep(2)
    assert here.sums() == (22, 8, 4)


@time_machine.travel(T0, tick=False)
def test_what_is_lent_among_those_that_move_binds_them_where_their_quota_stays(here: Department) -> None:
    elsewhere = tenancy.folder("products")
    mover = tenancy.user("mover")
    for folder in (here.folder, elsewhere):
        tenancy.member(mover, folder, Role.ADMIN)
    loan = lend(here, 3, None, 2, borrower=here.node_a)
    with pytest.raises(Conflict):
        tenant_move(acting_user=mover, tenant=here.a, parent=elsewhere)
    tenant_move(acting_user=SYSTEM, tenant=here.a, parent=elsewhere)
    override_end(acting_user=SYSTEM, override=loan)
    assert (here.own_nominal(here.queue_a.node), here.own_nominal(here.node_a)) == (8, 0)
