"""Requests for quota: evidence, decisions, offers, expiry, and the effect of an approval."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from clusters.models import Node
from foundation.core.actor import SYSTEM
from foundation.core.errors import Invalid, NotFound, PermissionDenied, PreconditionFailed
from foundation.models import AuditRecord
from quotas.hooks.request_evidence import gather_evidence
from quotas.models import OverrideState, QuotaChangeSource, QuotaRequest, QuotaRevision, RequestState
from quotas.services.errors import ExceedsParent, OfferWithdrawn, RequestNotPending, RequestOpen
from quotas.services.overrides.override import overrides_sweep
from quotas.services.quota import QuotaAmount, quota_set
from quotas.services.requests.quota_request import (
    may_decide_request,
    quota_request_accept,
    quota_request_approve,
    quota_request_counter,
    quota_request_create,
    quota_request_decline,
    quota_request_reject,
    quota_request_withdraw,
    quota_requests_expire,
    requests_to_decide,
)
from scheduling.models import Allocation
from telemetry.models import Channel, RolledTenMinutes
from telemetry.store.times import to_ms
from tenants.models import User
from tenants.services.account import user_set_active
from tests.builders import clusters, jobs
from tests.builders.tenancy import platform_admin
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.django_db
T0 = datetime(2026, 5, 1, 8, tzinfo=UTC)


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def item(nominal: int | None = 12, **more: Any) -> dict[str, Any]:
    return {"flavor": "a100", "resource": "gpu.cards", "nominal": nominal, **more}


def ask(here: Department, *items: Mapping[str, Any], by: User | None = None, **more: Any) -> QuotaRequest:
    return quota_request_create(
        acting_user=by or here.ed,
        node=more.pop("node", here.node_a),
        asked=items or [item()],
        reason="a paper is due",
        **more,
    )


def state(request: QuotaRequest) -> str:
    return QuotaRequest.unscoped.get(pk=request.pk).state


def test_what_is_asked_is_kept_with_what_there_is(here: Department) -> None:
    made = ask(here)
    place = {"cluster": "sim", "flavor": "a100", "resource": "gpu.cards"}
    assert made.asked == [{**place, "nominal": 12}]
    assert made.current == [{**place, "nominal": 8, "borrowing_limit": None, "lending_limit": None}]
    assert (made.state, made.asker) == (RequestState.PENDING, here.ed)
    assert timedelta(days=13) < made.expires_at - made.created_at <= timedelta(days=14)
    with pytest.raises(RequestOpen):
        ask(here)
    ask(here, by=here.adam)


@pytest.mark.parametrize(
    ("items", "field", "code"),
    [
        ([item(8)], "amounts.0.nominal", "NOT_MORE"),
        ([item(-1)], "amounts.0.nominal", "NEGATIVE"),
        ([item(10**30)], "amounts.0.nominal", "TOO_LARGE"),
        ([item(12), item(13)], "amounts.1.nominal", "TWICE"),
        ([item(12, flavor="h100")], "amounts.0.flavor", "UNKNOWN"),
        ([{"flavor": "a100", "resource": "gpu.cards"}], "amounts.0.nominal", "REQUIRED"),
    ],
)
def test_what_cannot_be_asked(here: Department, items: list[dict[str, Any]], field: str, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        ask(here, *items)
    assert [(error.field, error.code) for error in refused.value.errors] == [(field, code)]


def test_times_that_cannot_be(here: Department) -> None:
    now = datetime.now(UTC)
    wrong = {
        "until": now - timedelta(seconds=1),
        "expires_at": now - timedelta(seconds=1),
    }
    for name, moment in wrong.items():
        with pytest.raises(Invalid) as refused:
            ask(here, **{name: moment})
        assert [error.field for error in refused.value.errors] == [name]
    with pytest.raises(Invalid):
        ask(here, expires_at=now + timedelta(days=91))
    with pytest.raises(Invalid):
        ask(here, item(12, borrowing_limit=4), until=now + timedelta(days=1))


def test_who_may_ask_and_who_decides(here: Department) -> None:
    made = ask(here)
    assert [may_decide_request(who, made) for who in (here.ed, here.adam, here.anna)] == [False, False, True]
    for who in (here.ed, here.adam):
        with pytest.raises(PermissionDenied):
            quota_request_approve(acting_user=who, request=made)
    with pytest.raises(NotFound):
        ask(here, node=here.node_b)
    of_queue = ask(here, item(9), node=here.queue_a.node, by=here.ed)
    assert may_decide_request(here.adam, of_queue)
    waiting = [requests_to_decide(who) for who in (here.ed, here.adam, here.anna, platform_admin())]
    assert waiting == [0, 1, 2, 2]


def test_approving_gives_it_and_says_who_and_why(here: Department) -> None:
    made = ask(here)
    done = quota_request_approve(
        acting_user=here.anna, request=made, answer="good luck", version=made.version
    )
    assert here.sums() == (22, 12, 4)
    assert here.own_nominal(here.node) == 6
    assert (done.state, done.decided_by, done.answer) == (RequestState.APPROVED, here.anna, "good luck")
    revision = QuotaRevision.unscoped.get()
    assert (revision.source, revision.actor_name, done.revision) == (
        QuotaChangeSource.REQUEST,
        "anna",
        revision,
    )
    actions = AuditRecord.unscoped.filter(tenant_id=here.a.pk).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["quota-request.create", "quota.set", "quota-request.approve"]
    with pytest.raises(RequestNotPending) as refused:
        quota_request_reject(acting_user=here.anna, request=made, answer="no")
    assert refused.value.numbers == {"state": "approved"}


def test_more_than_the_folder_has_is_refused_with_the_same_sentence_as_a_save(here: Department) -> None:
    made = ask(here, item(19))
    with pytest.raises(ExceedsParent) as refused:
        quota_request_approve(acting_user=here.anna, request=made)
    with pytest.raises(ExceedsParent) as saved:
        quota_set(acting_user=here.anna, node=here.node_a, amounts=[QuotaAmount(here.flavor, CARDS, 19)])
    assert refused.value.detail == saved.value.detail
    assert "Research has 22 GPUs" in refused.value.detail
    assert state(made) == RequestState.PENDING
    assert here.sums() == (22, 8, 4)


def test_what_it_has_more_of_meanwhile_is_not_lowered(here: Department) -> None:
    made = ask(here, item(10))
    quota_set(acting_user=here.anna, node=here.node_a, amounts=[QuotaAmount(here.flavor, CARDS, 14)])
    done = quota_request_approve(acting_user=here.anna, request=made)
    assert here.sums() == (22, 14, 4)
    assert (done.state, done.revision) == (RequestState.APPROVED, None)


def test_a_version_that_is_not_current_decides_nothing(here: Department) -> None:
    made = ask(here)
    with pytest.raises(PreconditionFailed):
        quota_request_approve(acting_user=here.anna, request=made, version=made.version + 1)
    assert state(made) == RequestState.PENDING


def test_an_offer_of_a_closed_account_is_carried_out_once_it_is_open_again(here: Department) -> None:
    made = ask(here)
    quota_request_counter(acting_user=here.anna, request=made, offer=[item(10)])
    user_set_active(acting_user=SYSTEM, user=here.anna, active=False)
    with pytest.raises(OfferWithdrawn):
        quota_request_accept(acting_user=here.ed, request=made)
    assert (state(made), here.sums()) == (RequestState.COUNTERED, (22, 8, 4))
    user_set_active(acting_user=SYSTEM, user=here.anna, active=True)
    quota_request_accept(acting_user=here.ed, request=made)
    assert (state(made), here.sums()) == (RequestState.APPROVED, (22, 10, 4))


def test_an_offer_is_accepted_or_declined_by_who_asked(here: Department) -> None:
    made = ask(here)
    quota_request_counter(acting_user=here.anna, request=made, offer=[item(10)], answer="half")
    assert (state(made), here.sums()) == (RequestState.COUNTERED, (22, 8, 4))
    with pytest.raises(PermissionDenied):
        quota_request_accept(acting_user=here.adam, request=made)
    with pytest.raises(RequestNotPending):
        quota_request_approve(acting_user=here.anna, request=made)
    quota_request_accept(acting_user=here.ed, request=made)
    assert (state(made), here.sums()) == (RequestState.APPROVED, (22, 10, 4))
    assert QuotaRevision.unscoped.get().actor_name == "anna"
    other = ask(here)
    quota_request_counter(acting_user=here.anna, request=other, offer=[item(11)])
    quota_request_decline(acting_user=here.ed, request=other)
    assert (state(other), here.sums()) == (RequestState.DECLINED, (22, 10, 4))


def test_an_offer_must_be_more_than_there_is(here: Department) -> None:
    made = ask(here)
    with pytest.raises(Invalid) as refused:
        quota_request_counter(acting_user=here.anna, request=made, offer=[item(8)])
    assert refused.value.errors[0].field == "offer.0.nominal"
    assert state(made) == RequestState.PENDING


def test_an_offer_counts_for_nothing_once_who_made_it_may_not_any_more(here: Department) -> None:
    made = ask(here)
    quota_request_counter(acting_user=here.anna, request=made, offer=[item(10)])
    here.anna.memberships.all().delete()
    with pytest.raises((PermissionDenied, NotFound)):
        quota_request_accept(acting_user=here.ed, request=made)
    assert (state(made), here.sums()) == (RequestState.COUNTERED, (22, 8, 4))


def test_taking_it_back(here: Department) -> None:
    made = ask(here)
    quota_request_withdraw(acting_user=here.ed, request=made)
    assert state(made) == RequestState.WITHDRAWN
    other = ask(here)
    quota_request_withdraw(acting_user=here.adam, request=other)
    with pytest.raises(RequestNotPending):
        quota_request_approve(acting_user=here.anna, request=other)


def test_a_request_expires_whether_or_not_it_was_looked_at(here: Department) -> None:
    with time_machine.travel(T0, tick=False):
        made = ask(here, expires_at=T0 + timedelta(hours=1))
    late = T0 + timedelta(hours=1)
    with time_machine.travel(late, tick=False):
        with pytest.raises(RequestNotPending) as refused:
            quota_request_approve(acting_user=here.anna, request=made)
        assert refused.value.numbers == {"state": "expired"}
        assert quota_requests_expire(now=late - timedelta(seconds=1)) == 0
        assert quota_requests_expire(now=late) == 1
        assert quota_requests_expire(now=late) == 0
    assert state(made) == RequestState.EXPIRED
    assert AuditRecord.unscoped.filter(action="quota-request.expire", actor_name="allotment").count() == 1


def test_what_is_wanted_until_some_day_is_lent_by_the_folder(here: Department) -> None:
    with time_machine.travel(T0, tick=False):
        made = ask(here, until=T0 + timedelta(days=2))
        assert made.expires_at == T0 + timedelta(days=2)
        done = quota_request_approve(acting_user=here.anna, request=made)
    assert here.sums() == (22, 12, 4)
    assert done.override is not None
    assert (done.override.state, done.override.lender) == (OverrideState.ACTIVE, here.node)
    overrides_sweep(now=T0 + timedelta(days=2))
    assert here.sums() == (22, 8, 4)


# Evidence


def test_without_data_the_evidence_says_so(here: Department) -> None:
    found = ask(here).evidence
    assert found["use"] == {"missing": "nothing-held"}
    assert found["idle"] == {"missing": "not-measured"}
    assert found["pending"] == {"jobs": 0, "cards": 0}
    assert found["days"] == 30


def test_evidence_counts_use_idleness_and_what_waits(here: Department) -> None:
    node: Node = clusters.node(here.flavor)
    with time_machine.travel(T0, tick=False):
        running = jobs.job(here.queue_a, here.ed, "running", roles=(jobs.RoleOf(cards=2),))
        jobs.allocate(running, node)
        Allocation.unscoped.update(charge={"gpu.cards": 2, "gpu.cores": 200})
        jobs.job(here.queue_a, here.ed, "waiting", roles=(jobs.RoleOf(replicas=3, cards=4),))
    held = Allocation.unscoped.get()
    channel = Channel.unscoped.create(
        scope="slice",
        cluster_id=node.cluster_id,
        node_id=node.pk,
        device_id=held.slices.first().device_id,
        allocation_id=held.pk,
        job_id=running.pk,
    )
    for number, peak in enumerate((1.0, 50.0, 2.0)):
        RolledTenMinutes.unscoped.create(
            channel=channel,
            at_ms=to_ms(T0) + number * 600_000,
            count=30,
            covered_ms=300_000,
            cores_used=peak,
            cores_used_min=0,
            cores_used_max=peak,
            memory_used_mib=0,
            memory_used_mib_min=0,
            memory_used_mib_max=0,
            cores_allocated=600,
            memory_allocated_mib=0,
        )
    found = gather_evidence(here.node_a, now=T0 + timedelta(hours=3))
    assert found["use"] == {
        "gpu_hours": {"a100": 6.0},
        "total_gpu_hours": 6.0,
        "mean_gpus": round(6 / 720, 2),
        "since": T0.isoformat(),
    }
    assert found["pending"] == {"jobs": 1, "cards": 12}
    assert found["idle"] == {"measured_gpu_hours": 1.5, "idle_gpu_hours": 1.0}
    assert gather_evidence(here.node_b, now=T0 + timedelta(hours=3))["use"] == {"missing": "nothing-held"}
