"""Rules on a PromQL query: asked of the configured server, per series, for platform rules alone."""

from __future__ import annotations

import json
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.core.cache import cache
from django.test import Client

from alerts.metrics import promql
from alerts.models import Alert, AlertRule, RuleError
from alerts.selectors.rule_history import read_rule_history
from alerts.services.rule import change_rule, create_rule
from clusters.models import Cluster
from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.core.sealed_text import seal_text
from frontend.pages.alerts.rule_form import RuleForm
from telemetry.models import TelemetrySource
from telemetry.sources.fetch import SourceFailed, SourceProblem, query_prometheus
from tenants.models import Role
from tests.builders import tenancy
from tests.builders.clusters import cluster
from tests.integration.alerts.conftest import Bench

RULE = {
    "name": "links",
    "metric": "promql.value",
    "query": "sum by (link) (errors)",
    "threshold": 5.0,
    "hold_s": 0,
}


def _answer(kind: str, *series: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": list(series)}}).encode()


def _add_server(bench: Bench) -> TelemetrySource:
    return TelemetrySource.unscoped.create(
        cluster=bench.world.cluster, name="prom", kind="prometheus", address=f"{bench.receiver.url}/p"
    )


def _refusal(bench: Bench, **values: Any) -> str:
    tenant = values.pop("tenant", None)
    with pytest.raises(Invalid) as refused:
        create_rule(acting_user=bench.world.platform_admin, tenant=tenant, values=RULE | values)
    return refused.value.errors[0].code


def test_each_series_of_the_answer_has_an_alert_and_a_dead_server_changes_none(bench: Bench) -> None:
    cache.clear()
    assert _refusal(bench) == "NO_SERVER"
    _add_server(bench)
    assert _refusal(bench, query=" ") == "REQUIRED"
    assert _refusal(bench, metric="job.pending_s") == "NOT_OF_METRIC"
    assert _refusal(bench, tenant=bench.world.workspace) == "PLATFORM_ONLY"
    rule = create_rule(acting_user=bench.world.platform_admin, tenant=None, values=RULE | {"resolve_s": 0})
    now = clock.now().timestamp()
    bench.receiver.body = _answer(
        "vector",
        {"metric": {"link": "a"}, "value": [now, "7"]},
        {"metric": {"link": "b"}, "value": [now, "3"]},
        {"metric": {"link": "c"}, "value": [now, "NaN"]},
    )
    bench.step()
    (request,) = bench.receiver.requests
    assert request.path == "/p/api/v1/query"
    sent = parse_qs(request.body.decode())
    assert (sent["query"], sent["timeout"], sent["limit"]) == ([RULE["query"]], ["4s"], ["1000"])
    (alert,) = Alert.unscoped.all()
    assert (alert.label, alert.value, alert.state) == ("sim {link=a}", 7.0, "firing")
    bench.receiver.status, bench.receiver.body = 503, b"down"
    bench.step()
    bench.step()
    rule.refresh_from_db()
    alert.refresh_from_db()
    assert (rule.error, alert.state) == (RuleError.UNREADABLE, "firing")
    assert len(bench.receiver.requests) == 2, "a server that does not answer rests"
    cache.clear()
    change_rule(acting_user=bench.world.platform_admin, rule=rule, values={"query": "other"})
    alert.refresh_from_db()
    assert alert.state == "resolved", "another query has other subjects"


def test_the_preview_charts_the_query_and_the_form_offers_it_with_a_server(
    bench: Bench, client: Client
) -> None:
    cache.clear()
    client.force_login(bench.world.platform_admin)
    form = "/ops/alerts/rules?edit=new"
    assert "promql.value" not in client.get(form).content.decode().split("data-list-dialog")[1]
    _add_server(bench)
    label = client.get(form).content.decode().split("PromQL query")[1].split("</label>")[0]
    assert "optional" not in label, "its metric requires the query"
    typed = {"name": "Full", "comparison": "above", "threshold": "1", "hold_s": "0", "resolve_s": "0"}
    for metric, told in (("promql.value", True), ("gpu.temperature_c", False)):
        posted = typed | {"severity": "warning", "metric": metric, "query": ""}
        checked = RuleForm(posted, tenant=None, clusters=[], channels=[])
        assert (list(checked.errors) == ["query"]) is told, checked.errors
    end = clock.now()
    points = [[end.timestamp() - 300 * place, str(9 if place < 100 else 1)] for place in range(288)]
    bench.receiver.body = _answer("matrix", {"metric": {"link": "a"}, "values": points})
    found = read_rule_history(
        bench.world.platform_admin, AlertRule(**RULE, comparison="above", resolve_s=0), now=end
    )
    assert found is not None
    assert (found.fired, [value for _at, value in found.extreme][::287]) == (1, [1.0, 9.0])


def test_who_may_not_create_the_rule_sends_no_query(bench: Bench, client: Client) -> None:
    cache.clear()
    _add_server(bench)
    looker = tenancy.user("looker", None, Role.PLATFORM_VIEWER)
    client.force_login(looker)
    typed = RULE | {"comparison": "above", "resolve_s": "0", "severity": "warning", "repeat_s": ""}
    answer = client.post("/ops/alerts/rules", typed | {"do": "preview"})
    assert answer.status_code == 403 and not bench.receiver.requests
    client.force_login(bench.world.platform_admin)
    bench.receiver.status, bench.receiver.body = 503, b"down"
    page = unescape(client.post("/ops/alerts/rules", typed | {"do": "preview"}).content.decode())
    assert "The metric couldn't be read." in page and "The history can't be read." in page


def _share(bench: Bench, sim: Cluster, east: Cluster, west: Cluster) -> None:
    """Give two clusters one server by addresses that differ in a slash, and the third its own."""
    for one in (sim, east):
        labels = {"cluster": one.name}
        address = f"{bench.receiver.url}/p{'/' if one is sim else ''}"
        TelemetrySource.unscoped.create(
            cluster=one, name="prom", kind="prometheus", address=address, matchers=labels
        )
    TelemetrySource.unscoped.create(
        cluster=west, name="prom", kind="prometheus", address=f"{bench.receiver.url}/west"
    )


def test_clusters_that_share_a_server_see_each_series_once(
    bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    monkeypatch.setattr(promql, "_REST_S", 0)
    sim, east, west = (
        bench.world.cluster,
        *(cluster(bench.world.cluster.cell, name) for name in ("east", "west")),
    )
    _share(bench, sim, east, west)
    admin = bench.world.platform_admin
    rule = create_rule(acting_user=admin, tenant=None, values=RULE | {"resolve_s": 0})
    of_east = create_rule(acting_user=admin, tenant=None, values=RULE | {"name": "east", "cluster": east})
    now = clock.now().timestamp()
    bench.receiver.body = _answer(
        "vector",
        *({"metric": {"cluster": name}, "value": [now, "7"]} for name in ("sim", "east", "unknown")),
        {"metric": {"link": "sum"}, "value": [now, "9"]},
    )
    bench.step()
    paths = [request.path for request in bench.receiver.requests]
    assert sorted(paths) == ["/p/api/v1/query", "/p/api/v1/query", "/west/api/v1/query"]
    found = sorted(Alert.unscoped.filter(rule=rule).values_list("label", "cluster_id"), key=str)
    shared = [
        ("east {cluster=east}", east.pk),
        ("east, sim {link=sum}", None),
        ("sim {cluster=sim}", sim.pk),
    ]
    others = [(f"west {{cluster={name}}}", west.pk) for name in ("east", "sim", "unknown")]
    assert found == [*shared, *others, ("west {link=sum}", west.pk)]
    assert sorted(of_east.alerts.values_list("label", flat=True)) == [
        "east {cluster=east}",
        "east {link=sum}",
    ]

    # One server fails: its alerts stay, those of the others move, and the rule names its clusters.
    client.force_login(admin)
    typed = RULE | {"comparison": "above", "resolve_s": "0", "severity": "warning", "repeat_s": ""}
    of_west = [*others, ("west {link=sum}", west.pk)]
    bench.receiver.body = _answer("vector")
    for failing, unread, resolved in (("/west", ["west"], shared), ("/p", ["east", "sim"], of_west)):
        Alert.unscoped.filter(rule=rule).update(state="firing", resolved_at=None)
        with monkeypatch.context() as patched:
            patched.setattr(promql, "query_prometheus", partial(_fail_at, failing))
            bench.step()
            rule.refresh_from_db()
            assert (rule.error, rule.unread_clusters) == ("partly-unreadable", unread)
            moved = rule.alerts.filter(state="resolved").values_list("label", "cluster_id")
            assert set(moved) == set(resolved)
            told = f"Couldn't read: {', '.join(unread)}."
            assert told in unescape(client.get("/ops/alerts/rules").content.decode())
            page = unescape(client.post("/ops/alerts/rules", typed | {"do": "preview"}).content.decode())
            assert page.count(told) == 3, "now, in the last day, in the row"
            assert "covers no subjects" not in page, "those of the cluster are not known"
    bench.step()
    rule.refresh_from_db()
    assert (rule.error, rule.unread_clusters) == ("", [])


def test_sums_of_two_credentials_at_one_server_are_two_subjects(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    clusters = [
        bench.world.cluster,
        *(cluster(bench.world.cluster.cell, f"c-{number}") for number in range(6)),
    ]
    for number, one in enumerate(clusters):
        TelemetrySource.unscoped.create(
            cluster=one,
            name="prom",
            kind="prometheus",
            address=f"{bench.receiver.url}/p",
            user="ann" if number % 2 else "bob",
            secret=seal_text("secret"),
        )
    rule = create_rule(acting_user=bench.world.platform_admin, tenant=None, values=RULE | {"resolve_s": 0})
    bench.receiver.body = _answer(
        "vector", {"metric": {"link": "a"}, "value": [clock.now().timestamp(), "7"]}
    )
    bench.step()
    labels = dict(rule.alerts.values_list("label", "pk"))
    assert sorted(labels) == ["c-0, c-2 +1 {link=a}", "c-1, c-3 +2 {link=a}"], (
        "long lists of clusters are cut"
    )

    def answer_bob(base: str, path: str, parameters: Any, access: Any, **more: Any) -> Any:
        if access.user == "ann":
            raise SourceFailed(SourceProblem.UNREACHABLE)
        return query_prometheus(base, path, parameters, access, **more)

    bench.receiver.body = _answer("vector")
    monkeypatch.setattr(promql, "query_prometheus", answer_bob)
    bench.step()
    states = dict(rule.alerts.values_list("label", "state"))
    assert states == {"c-0, c-2 +1 {link=a}": "firing", "c-1, c-3 +2 {link=a}": "resolved"}


def _fail_at(path: str, base: str, *rest: Any, **more: Any) -> Any:
    if base.rstrip("/").endswith(path):
        raise SourceFailed(SourceProblem.UNREACHABLE)
    return query_prometheus(base, *rest, **more)
