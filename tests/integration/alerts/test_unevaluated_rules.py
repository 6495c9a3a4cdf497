"""A rule whose data source is disabled, deleted or silent says so, and moves none of its alerts."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from alerts.evaluation.evaluate import evaluate_rules
from alerts.models import UNEVALUATED, AlertRule, Notification, RuleError
from alerts.services.rule import change_rule, create_rule
from clusters.models import Cluster
from foundation.core import clock
from foundation.core.errors import Invalid
from frontend.pages.alerts.rule_problem import describe_problem
from telemetry.models import TelemetrySource
from tests.builders.clusters import cluster
from tests.integration.alerts.conftest import Bench

RULE: dict[str, Any] = {
    "name": "links",
    "metric": "promql.value",
    "query": "errors",
    "threshold": 5.0,
    "hold_s": 0,
    "resolve_s": 0,
}


@pytest.fixture(autouse=True)
def _no_server_rests(bench: Bench) -> None:
    cache.clear()


def _add_source(bench: Bench, one: Cluster, path: str, **values: Any) -> TelemetrySource:
    address = f"{bench.receiver.url}/{path}"
    return TelemetrySource.unscoped.create(
        cluster=one, name="prom", kind="prometheus", address=address, **values
    )


def _create_rule(bench: Bench, **values: Any) -> AlertRule:
    return create_rule(acting_user=bench.world.platform_admin, tenant=None, values=RULE | values)


def _answer(bench: Bench, *values: int) -> None:
    now = clock.now().timestamp()
    found = [{"metric": {"link": str(place)}, "value": [now, str(each)]} for place, each in enumerate(values)]
    bench.receiver.body = json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": found}}
    ).encode()


def _states(rule: AlertRule) -> list[tuple[str, str]]:
    return sorted(rule.alerts.values_list("label", "state"))


@pytest.mark.parametrize(
    ("is_deleted", "error", "english", "chinese"),
    [
        (False, "source-disabled", "The Prometheus data source is disabled.", "Prometheus 数据源已停用。"),
        (True, "no-source", "No Prometheus server is configured as", "未配置 Prometheus 服务器作为数据源。"),
    ],
)
def test_a_rule_without_its_server_says_why_and_since_when_and_moves_nothing(
    bench: Bench, client: Client, is_deleted: bool, error: str, english: str, chinese: str
) -> None:
    source = _add_source(bench, bench.world.cluster, "p")
    rule = _create_rule(bench)
    rule.channels.set([bench.channel()])
    _answer(bench, 9)
    bench.step()
    evaluated = clock.now()
    if is_deleted:
        source.delete()
    else:
        TelemetrySource.unscoped.update(enabled=False)
    bench.step()
    began = clock.now()
    bench.step(3600)
    rule.refresh_from_db()
    assert (rule.error, rule.error_since, rule.evaluated_at) == (error, began, evaluated)
    assert _states(rule) == [("sim {link=0}", "firing")]
    assert Notification.unscoped.count() == 1, "the firing alone"
    _check_pages(bench, client, rule, {"en": english, "zh-hans": chinese})

    # It can still be changed and disabled, and says nothing of a run then.
    admin = bench.world.platform_admin
    change_rule(acting_user=admin, rule=rule, values={"name": "wires", "enabled": False})
    assert english not in unescape(client.get("/ops/alerts/rules").content.decode())
    change_rule(acting_user=admin, rule=rule, values={"enabled": True})
    if is_deleted:
        with pytest.raises(Invalid):
            change_rule(acting_user=admin, rule=rule, values={"query": "other"})
        _add_source(bench, bench.world.cluster, "p")
        TelemetrySource.unscoped.update(name="again")
    else:
        TelemetrySource.unscoped.update(enabled=True)
    bench.step()
    rule.refresh_from_db()
    assert (rule.error, rule.error_since, rule.evaluated_at) == ("", None, clock.now())


def _check_pages(bench: Bench, client: Client, rule: AlertRule, words: dict[str, str]) -> None:
    """The list and the form of the rule say why, since when, and offer its own metric and query."""
    client.force_login(bench.world.platform_admin)
    since = {"en": "Not evaluated since 2026-03-02 08:00:30 UTC", "zh-hans": "自 2026-03-02 08:00:30 UTC 起"}
    for language, why in words.items():
        client.cookies["allotment_language"] = language
        page = unescape(client.get("/ops/alerts/rules").content.decode())
        assert why in page and since[language] in page
        form = unescape(client.get(f"/ops/alerts/rules?edit={rule.pk}").content.decode())
        form = form.split("data-list-dialog")[1]
        assert why in form and since[language] in form and "errors</textarea>" in form
        assert '<option value="promql.value" selected>' in form
    client.cookies["allotment_language"] = "en"
    typed = RULE | {"comparison": "above", "severity": "warning", "repeat_s": "", "do": "preview"}
    page = unescape(client.post("/ops/alerts/rules", typed | {"row": str(rule.pk)}).content.decode())
    assert page.split("data-list-dialog")[1].count(words["en"]) == 2, "of the rule, and of its preview"


def test_alerts_of_a_cluster_without_its_server_stay_and_the_others_move(
    bench: Bench, client: Client
) -> None:
    west = cluster(bench.world.cluster.cell, "west")
    never = cluster(bench.world.cluster.cell, "never-had-one")
    _add_source(bench, bench.world.cluster, "sim")
    source = _add_source(bench, west, "west")
    rule = _create_rule(bench)
    _answer(bench, 9)
    bench.step()
    source.enabled = False
    source.save()
    _answer(bench)
    bench.step()
    rule.refresh_from_db()
    stays = [("sim {link=0}", "resolved"), ("west {link=0}", "firing")]
    assert _states(rule) == stays
    assert (rule.error, rule.unread_clusters) == ("partly-without-source", ["west"])
    client.force_login(bench.world.platform_admin)
    told = "No enabled data source: west. Not evaluated there; alerts there stay unchanged."
    assert told in unescape(client.get("/ops/alerts/rules").content.decode())
    source.delete()
    bench.step()
    rule.refresh_from_db()
    assert _states(rule) == stays
    assert (rule.error, rule.unread_clusters) == ("partly-without-source", ["west"]), never.name
    rule.alerts.filter(state="firing").delete()
    bench.step()
    rule.refresh_from_db()
    assert (rule.error, rule.unread_clusters) == ("", []), "nothing is left that isn't evaluated"


def test_a_series_of_two_clusters_keeps_its_alert_while_one_source_is_disabled(bench: Bench) -> None:
    east = cluster(bench.world.cluster.cell, "east")
    sources = [_add_source(bench, one, "p") for one in (bench.world.cluster, east)]
    rule = _create_rule(bench)
    _answer(bench, 9)
    bench.step()
    (alert,) = rule.alerts.all()
    for source in sources:
        TelemetrySource.unscoped.update(enabled=True)
        TelemetrySource.unscoped.filter(pk=source.pk).update(enabled=False)
        bench.step()
        rule.refresh_from_db()
        assert rule.unread_clusters == [source.cluster.name]
        assert list(rule.alerts.values_list("pk", "state")) == [(alert.pk, "firing")]


def test_a_rule_on_gpus_names_the_clusters_that_have_no_values(bench: Bench, client: Client) -> None:
    west = cluster(bench.world.cluster.cell, "west")
    for one in (bench.world.cluster, west):
        bench.observe(f"gpu-{one.name}", 20.0, cluster_id=one.pk)
    rule = bench.rule()
    client.force_login(bench.world.platform_admin)
    steps = (
        ({}, "", []),
        ({"west": None}, "partly-without-values", ["west"]),
        ({"sim": None}, "no-values", []),
    )
    for values, error, names in steps:
        for name in values:
            bench.observe(
                f"gpu-{name}", None, cluster_id=west.pk if name == "west" else bench.world.cluster.pk
            )
        bench.step()
        rule.refresh_from_db()
        assert (rule.error, rule.unread_clusters) == (error, names)
        assert {state for _label, state in _states(rule)} == {"firing"}
    assert rule.error in UNEVALUATED
    assert "No GPU, node or cluster has a current value." in client.get("/ops/alerts/rules").content.decode()


def test_not_evaluated_since_is_the_first_of_the_errors_in_succession(bench: Bench) -> None:
    source = _add_source(bench, bench.world.cluster, "p")
    rule = _create_rule(bench)
    _answer(bench, 9)
    bench.step()
    bench.receiver.body = b"not JSON"
    bench.step()
    began, seen = clock.now(), []
    for change in (
        lambda: None,
        lambda: TelemetrySource.unscoped.update(enabled=False),
        source.delete,
    ):
        change()
        bench.step(3600)
        rule.refresh_from_db()
        seen.append((rule.error, rule.error_since))
    assert seen == [("unreadable", began), ("source-disabled", began), ("no-source", began)]
    _answer(bench, 9)
    _add_source(bench, bench.world.cluster, "p")
    bench.step()
    AlertRule.unscoped.filter(pk=rule.pk).update(error=RuleError.TOO_MANY, error_since=began)
    TelemetrySource.unscoped.update(enabled=False)
    bench.step()
    rule.refresh_from_db()
    assert (rule.error, rule.error_since) == ("source-disabled", clock.now()), "it was evaluated before"


def test_clusters_that_are_not_read_have_no_date_that_began_with_another(bench: Bench) -> None:
    others = [cluster(bench.world.cluster.cell, name) for name in ("east", "west")]
    _add_source(bench, bench.world.cluster, "sim")
    sources = [_add_source(bench, one, one.name) for one in others]
    rule = _create_rule(bench)
    _answer(bench, 9)
    bench.step()
    for source in sources:
        TelemetrySource.unscoped.filter(pk=source.pk).update(enabled=False)
        bench.step(7200)
    rule.refresh_from_db()
    assert rule.unread_clusters == ["east", "west"]
    told = "No enabled data source: east, west. Not evaluated there; alerts there stay unchanged."
    assert describe_problem(rule) == told
    rule.error = RuleError.TOO_MANY
    error, rest = describe_problem(rule).split(" Since ")
    assert error == rule.get_error_display()
    assert rest.endswith("UTC. Couldn't read: east, west. Not evaluated there; alerts there stay unchanged.")


def test_a_rule_without_values_does_not_claim_that_its_alerts_stay(bench: Bench) -> None:
    west = cluster(bench.world.cluster.cell, "west")
    for name, one in (("gone", west), ("silent", west), ("well", bench.world.cluster)):
        bench.observe(name, 20.0, cluster_id=one.pk)
    rule = bench.rule()
    bench.step()
    del bench.values["gone"]
    bench.observe("silent", None, cluster_id=west.pk)
    bench.step()
    rule.refresh_from_db()
    assert bench.states() == {"gone": "resolved", "silent": "firing", "well": "firing"}
    assert describe_problem(rule) == "No current values: west. Not evaluated there."
    del bench.values["well"]
    bench.step()
    rule.refresh_from_db()
    assert describe_problem(rule).endswith("Not evaluated since 2026-03-02 08:00:45 UTC.")


@pytest.mark.parametrize("is_cluster_alone", [False, True])
def test_no_reminder_is_sent_of_a_value_that_was_not_read(bench: Bench, is_cluster_alone: bool) -> None:
    if is_cluster_alone:
        _add_source(bench, cluster(bench.world.cluster.cell, "west"), "west")
    source = _add_source(bench, bench.world.cluster, "p")
    rule = _create_rule(bench, repeat_s=3600)
    rule.channels.set([bench.channel()])
    _answer(bench, 9)
    bench.step()
    sent = Notification.unscoped.filter(alert__label__startswith="sim", event="reminder")
    TelemetrySource.unscoped.filter(pk=source.pk).update(enabled=False)
    for _ in range(2):
        bench.step(3700)
    assert not sent.exists()
    west = Notification.unscoped.filter(alert__label__startswith="west", event="reminder")
    assert west.count() == (2 if is_cluster_alone else 0)
    TelemetrySource.unscoped.update(enabled=True)
    bench.step()
    assert sent.count() == 1, "the value is a new one again"


def test_more_rules_read_the_names_of_silent_clusters_once(bench: Bench) -> None:
    west = cluster(bench.world.cluster.cell, "west")
    bench.observe("a", 5.0, cluster_id=bench.world.cluster.pk)
    bench.observe("b", None, cluster_id=west.pk)
    counts = []
    for start, end in ((0, 2), (2, 9)):
        for place in range(start, end):
            bench.rule(name=f"rule {place}")
            bench.rule(bench.world.workspace, name=f"rule {place}")
        with CaptureQueriesContext(connection) as queries:
            evaluate_rules(clock.now())
        counts.append(len(queries))
    assert set(AlertRule.unscoped.values_list("error", flat=True)) == {"partly-without-values"}
    assert counts[0] == counts[1]
