"""Rules over the values of a metric: which alerts fire, for which subjects, and which are suppressed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from alerts.evaluation import evaluate
from alerts.evaluation.notifications import create_notifications
from alerts.models import Alert, AlertRule, AlertSeverity, Notification
from alerts.services.prune import prune_alerts
from alerts.services.recommended import create_recommended_rules
from alerts.services.rule import change_rule, create_rule, delete_rule
from alerts.services.silence import create_silence, end_silence
from foundation.core import clock
from foundation.core.errors import PermissionDenied
from tenants.models import Member
from tests.builders import tenancy
from tests.integration.alerts.conftest import Bench


def test_an_alert_fires_after_the_hold_time_and_resolves_after_the_resolve_time(bench: Bench) -> None:
    bench.rule(hold_s=30, resolve_s=30)
    bench.observe("a", 20.0)
    bench.step()
    assert bench.states() == {"a": "pending"}
    bench.step(30)
    assert bench.states() == {"a": "firing"}
    bench.observe("a", 5.0)
    bench.step()
    assert bench.states() == {"a": "firing"}
    bench.step(30)
    assert bench.states() == {"a": "resolved"}


def test_a_pending_alert_whose_condition_ends_leaves_no_trace(bench: Bench) -> None:
    bench.rule(hold_s=60)
    bench.observe("a", 20.0)
    bench.step()
    bench.observe("a", 5.0)
    bench.step()
    assert bench.states() == {}


def test_a_value_that_is_not_known_changes_nothing_and_a_subject_that_is_gone_resolves(bench: Bench) -> None:
    bench.rule()
    bench.observe("a", 20.0)
    bench.step()
    bench.observe("a", None)
    bench.step(600)
    assert bench.states() == {"a": "firing"}
    assert Alert.unscoped.get().value == 20.0
    bench.values.clear()
    bench.step()
    assert bench.states() == {"a": "resolved"}


def test_a_metric_that_cannot_be_read_changes_nothing_and_says_so(bench: Bench) -> None:
    rule = bench.rule()
    bench.observe("a", 20.0)
    bench.step()
    bench.broken = True
    bench.step(600)
    assert bench.states() == {"a": "firing"}
    rule.refresh_from_db()
    assert rule.error == "unreadable", "the failure itself names hosts and is for the log"
    bench.broken = False
    bench.step()
    rule.refresh_from_db()
    assert rule.error == ""


def test_a_rule_of_a_tenant_sees_its_own_subjects_only(bench: Bench) -> None:
    other = bench.world.other_workspace
    bench.observe("mine", 20.0)
    bench.observe("theirs", 20.0, tenant_id=other.pk, tenant_path=other.path)
    bench.rule(bench.world.workspace)
    bench.step()
    assert bench.states() == {"mine": "firing"}
    bench.rule(name="of the root", tenant=tenancy.root())
    bench.step()
    assert sorted(Alert.unscoped.values_list("rule_name", "subject")) == [
        ("load", "mine"), ("of the root", "mine"), ("of the root", "theirs"),
    ]  # fmt: skip


def test_a_disabled_rule_resolves_what_fires_and_a_deleted_one_keeps_its_history(bench: Bench) -> None:
    rule, admin = bench.rule(), bench.world.platform_admin
    bench.observe("a", 20.0)
    bench.step()
    change_rule(acting_user=admin, rule=rule, values={"enabled": False})
    bench.step()
    assert bench.states() == {"a": "resolved"}
    change_rule(acting_user=admin, rule=rule, values={"enabled": True})
    bench.step()
    delete_rule(acting_user=admin, rule=rule)
    assert set(Alert.unscoped.values_list("rule", "rule_name", "state")) == {(None, "load", "resolved")}


def test_a_change_of_the_threshold_counts_from_the_next_run(bench: Bench) -> None:
    rule = bench.rule()
    bench.observe("a", 20.0)
    bench.step()
    change_rule(acting_user=bench.world.platform_admin, rule=rule, values={"threshold": 30.0})
    bench.step()
    assert bench.states() == {"a": "resolved"}


def test_an_unreachable_cluster_and_a_higher_severity_inhibit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = bench.world.cluster
    bench.observe("a", 20.0, cluster_id=cluster.pk)
    bench.observe("b", 20.0)
    bench.rule()
    bench.rule(name="worse", severity=AlertSeverity.CRITICAL, threshold=15.0)
    bench.step()
    suppressed = dict(Alert.unscoped.filter(subject="b").values_list("rule_name", "suppressed"))
    assert suppressed == {"load": "inhibited", "worse": ""}
    bench.rule(name="down")
    AlertRule.unscoped.filter(name="down").update(metric="cluster.unreachable_s")
    Alert.unscoped.filter(rule_name="worse").update(suppressed="")
    Alert.unscoped.create(
        rule=AlertRule.unscoped.get(name="down"), rule_name="down", metric="cluster.unreachable_s",
        comparison="above", threshold=60, severity="critical", subject="c", label="c", state="firing",
        cluster_id=cluster.pk, started_at=clock.now(),
    )  # fmt: skip
    create_notifications(clock.now())
    found = set(Alert.unscoped.filter(subject="a").values_list("suppressed", flat=True))
    assert found == {"inhibited"}
    assert Alert.unscoped.get(subject="b", rule_name="worse").suppressed == ""


def test_a_silence_holds_notifications_back_until_it_ends(bench: Bench) -> None:
    rule = bench.rule(channels=[bench.channel()])
    silence = create_silence(
        acting_user=bench.world.platform_admin,
        tenant=None,
        rule=rule,
        subject="job a",
        ends_at=clock.now() + timedelta(hours=1),
    )
    bench.observe("a", 20.0)
    bench.observe("b", 20.0)
    bench.step()
    assert set(Notification.unscoped.values_list("alert__subject", flat=True)) == {"b"}
    assert Alert.unscoped.get(subject="a").suppressed == "silenced"
    end_silence(acting_user=bench.world.platform_admin, silence=silence)
    bench.step()
    assert set(Notification.unscoped.values_list("alert__subject", flat=True)) == {"a", "b"}


def test_a_workspace_cannot_silence_a_rule_of_its_parents(bench: Bench) -> None:
    bench.rule(tenancy.root(), channels=[])
    bench.rule(bench.world.workspace, name="own")
    create_silence(
        acting_user=bench.world.admin,
        tenant=bench.world.workspace,
        ends_at=clock.now() + timedelta(hours=1),
    )
    bench.observe("a", 20.0)
    bench.step()
    assert dict(Alert.unscoped.values_list("rule_name", "suppressed")) == {"load": "", "own": "silenced"}


def test_old_alerts_are_deleted_unless_something_is_unsent(bench: Bench) -> None:
    bench.rule(channels=[bench.channel()])
    bench.observe("a", 20.0)
    bench.step(deliver=False)
    bench.values.clear()
    bench.step(deliver=False)
    bench.traveller.shift(timedelta(days=91))
    assert prune_alerts(clock.now()) == 0
    Notification.unscoped.update(state="sent")
    assert prune_alerts(clock.now()) > 0
    assert bench.states() == {}


def test_a_rule_that_everything_exceeds_has_a_bounded_number_of_alerts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "ALERTS_MAX", 5)
    rule = bench.rule()
    for number in range(8):
        bench.observe(str(number), 20.0)
    bench.step()
    rule.refresh_from_db()
    assert (len(bench.states()), rule.error) == (5, "too-many")
    bench.values.pop("0")
    bench.step()
    bench.step()
    assert sum(state == "firing" for state in bench.states().values()) == 5


def test_a_run_in_which_nothing_changes_writes_no_alert(
    bench: Bench,
) -> None:
    bench.rule()
    for number in range(50):
        bench.observe(str(number), 20.0)
    bench.step()
    with CaptureQueriesContext(connection) as asked:
        evaluate.evaluate_rules(clock.now())
    assert not [
        query
        for query in asked.captured_queries
        if 'alerts_alert" SET' in query["sql"] and "CASE" in query["sql"]
    ]


def test_recommended_rules_are_created_once_and_only_where_none_watches_the_metric(bench: Bench) -> None:
    admin = bench.world.platform_admin
    bench.rule(name="Hot GPU", metric="gpu.power_w")
    first = create_recommended_rules(acting_user=admin)
    assert len({rule.metric for rule in first}) == len(first) == 12
    assert create_recommended_rules(acting_user=admin) == []
    with pytest.raises(PermissionDenied):
        create_recommended_rules(acting_user=bench.world.admin)


def test_what_fired_stays_in_the_history_when_its_subject_nearly_fires_again(bench: Bench) -> None:
    bench.rule(hold_s=60, channels=[bench.channel()])
    bench.receiver.status = 503
    bench.observe("a", 20.0)
    bench.step()
    bench.step(60)
    bench.observe("a", 5.0)
    bench.step()
    first = Alert.unscoped.get()
    assert first.state == "resolved"
    bench.observe("a", 20.0)
    bench.step()
    bench.observe("a", 5.0)
    bench.step()
    assert list(Alert.unscoped.values_list("pk", "resolved_at")) == [(first.pk, first.resolved_at)]
    assert set(Notification.unscoped.values_list("event", flat=True)) == {"firing", "resolved"}


def test_no_owner_inhibits_the_alerts_of_another(bench: Bench) -> None:
    bench.rule(channels=[bench.channel()])
    bench.rule(bench.world.workspace, name="mine", severity=AlertSeverity.CRITICAL)
    bench.rule(name="quiet", severity=AlertSeverity.CRITICAL)
    bench.observe("a", 20.0)
    bench.step()
    suppressed = dict(Alert.unscoped.values_list("rule_name", "suppressed"))
    assert suppressed["load"] == "", "neither a workspace nor a rule without the channel mutes it"
    assert len(bench.receiver.requests) == 1


def test_the_owner_of_a_rule_may_see_what_its_metric_measures(bench: Bench) -> None:
    place = bench.world.workspace
    for points, metric, allowed in (
        (("tenant.view", "tenant.edit"), "job.pending_s", False),
        (("tenant.view", "tenant.edit", "job.view"), "job.pending_s", True),
        (("tenant.view", "tenant.edit", "job.view"), "quota.reserved_percent", False),
    ):
        role = tenancy.custom_role(place, "-".join((*points, metric)), *points)
        user = tenancy.user(f"u{len(points)}{metric}")
        Member.unscoped.create(user=user, tenant=place, custom_role=role)
        values = {"name": metric, "metric": metric, "threshold": 1.0}
        if allowed:
            create_rule(acting_user=user, tenant=place, values=values)
        else:
            with pytest.raises(PermissionDenied):
                create_rule(acting_user=user, tenant=place, values=values)


def test_a_rule_whose_metric_is_gone_does_not_stop_the_others(bench: Bench) -> None:
    lost, kept = bench.rule(name="lost"), bench.rule(name="kept")
    AlertRule.unscoped.filter(pk=lost.pk).update(metric="gone.value")
    bench.observe("a", 20.0)
    bench.step()
    for rule in (lost, kept):
        rule.refresh_from_db()
    assert (lost.error, kept.error, bench.states()) == ("unreadable", "", {"a": "firing"})
