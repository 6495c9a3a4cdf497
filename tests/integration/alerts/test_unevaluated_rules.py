"""A rule whose data source is disabled, deleted or silent says so, and moves none of its alerts."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from alerts.models import UNEVALUATED, AlertRule, Notification
from alerts.services.rule import change_rule, create_rule
from clusters.models import Cluster
from foundation.core import clock
from foundation.core.errors import Invalid
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
    told = "No enabled data source: west. Not evaluated there since 2026-03-02 08:00:30 UTC"
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
