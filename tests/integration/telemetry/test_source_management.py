"""Adding, changing, trying and deleting data sources: by the service, the REST API and the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from foundation.core.errors import AllotmentError, Conflict, Invalid, PermissionDenied, PreconditionFailed
from foundation.core.sealed_text import open_text
from foundation.models import AuditRecord
from telemetry.models import SourceNode, SourceStatus, TelemetrySource
from telemetry.sources.manage import source_add, source_change, source_delete, source_try
from tests.builders import expositions as exp
from tests.builders.world import World, world
from tests.fixtures.http_receiver import Receiver, run_receiver

pytestmark = pytest.mark.django_db
ADDRESS = "http://10.0.0.1:9400/metrics"
LIST = "/api/v1/admin/telemetry-sources"


@pytest.fixture
def there() -> World:
    return world()


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with run_receiver() as made:
        made.headers = {"Content-Type": "text/plain"}
        yield made


@pytest.fixture
def operator(there: World, client: Client) -> Client:
    client.force_login(there.platform_admin)
    return client


def add(there: World, **given: Any) -> TelemetrySource:
    fields = {"name": "dcgm", "kind": "dcgm", "address": ADDRESS} | given
    return source_add(acting_user=there.platform_admin, cluster=there.cluster, **fields)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("name", {"name": "Not a label"}),
        ("kind", {"kind": "unknown"}),
        ("every_s", {"every_s": 14}),
        ("every_s", {"every_s": 61}),
        *(
            ("address", {"address": address})
            for address in (
                *(
                    "ftp://x/",
                    "http://",
                    "x",
                    "http://me:word@x/",
                    "http://{pod}/",
                    "http://{node/",
                    "http://x/#a",
                ),
                "http://x/" + "a" * 500,
            )
        ),
        ("address", {"kind": "prometheus", "address": "http://{node}:9090"}),
        ("address", {"kind": "prometheus", "address": "http://x:9090/?query=1"}),
        ("matchers", {"matchers": {"cluster": "a"}}),
        *(
            ("matchers", {"kind": "prometheus", "matchers": matchers})
            for matchers in (
                *({"__name__": "x"}, {"a-b": "x"}, {'a"}': "x"}, {"": "x"}, {"a": "x" * 201}, {"a": 1}),
                {f"a{number}": "x" for number in range(11)},
            )
        ),
        ("history", {"history": True}),
        ("secret", {"secret": "two\nlines"}),
        ("secret", {"secret": "pässword"}),
        ("secret", {"user": "me"}),
        ("user", {"user": "a:b", "secret": "x"}),
        ("authority", {"authority": "not a certificate"}),
    ],
)
def test_what_could_never_be_asked_is_refused(there: World, field: str, given: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        add(there, **given)
    assert [error.field for error in refused.value.errors] == [field]
    assert not TelemetrySource.unscoped.exists()


def test_a_secret_is_sealed_and_is_in_no_record(there: World) -> None:
    made = add(there, secret="a secret token")
    assert open_text(made.secret) == "a secret token" != made.secret
    source_change(acting_user=there.platform_admin, source=made, secret="another token")
    source_delete(acting_user=there.platform_admin, source=made)
    records = AuditRecord.unscoped.filter(entity="telemetry-source").order_by("id")
    assert [record.action.partition(".")[2] for record in records] == ["add", "change", "delete"]
    for record in records:
        told = str(record.before) + str(record.after)
        assert "token" not in told and made.secret not in told
        assert "'secret': True" in told


def test_a_stored_secret_is_not_shown_to_another_server(there: World) -> None:
    made = add(there, secret="token")
    kept = source_change(acting_user=there.platform_admin, source=made, address="http://10.0.0.1:9400/other")
    assert open_text(kept.secret) == "token"
    for address in ("http://10.0.0.2:9400/metrics", "http://10.0.0.1:9401/metrics", "https://10.0.0.1:9400/"):
        found = TelemetrySource.unscoped.get(pk=made.pk)
        with pytest.raises(Invalid, match="again"):
            source_change(acting_user=there.platform_admin, source=found, address=address)
        assert TelemetrySource.unscoped.get(pk=made.pk).address == "http://10.0.0.1:9400/other"
    changed = source_change(
        acting_user=there.platform_admin,
        source=TelemetrySource.unscoped.get(pk=made.pk),
        address="http://10.0.0.2:9400/metrics",
        secret="",
    )
    assert changed.secret == ""


def test_a_new_address_forgets_what_the_old_one_said(there: World) -> None:
    made = add(there)
    SourceStatus.unscoped.create(source=made, problem="timeout")
    SourceNode.unscoped.create(source=made, node="node-1", at_ms=1)
    source_change(acting_user=there.platform_admin, source=made, every_s=60)
    assert SourceStatus.unscoped.exists() and SourceNode.unscoped.exists()
    source_change(acting_user=there.platform_admin, source=made, address="http://10.0.0.9/metrics")
    assert not SourceStatus.unscoped.exists() and not SourceNode.unscoped.exists()


def test_names_are_unique_in_a_cluster_and_versions_are_checked(there: World) -> None:
    made = add(there)
    with pytest.raises(Conflict):
        add(there)
    with pytest.raises(PreconditionFailed):
        source_change(acting_user=there.platform_admin, source=made, every_s=60, expected=7)
    with pytest.raises(PreconditionFailed):
        source_delete(acting_user=there.platform_admin, source=made, expected=7)


@pytest.mark.parametrize("verb", ["add", "change", "delete", "try"])
def test_only_those_who_edit_clusters_manage_sources(there: World, verb: str) -> None:
    made, who = add(there), there.admin
    verbs = {
        "add": lambda: source_add(
            acting_user=who, cluster=there.cluster, name="b", kind="dcgm", address=ADDRESS
        ),
        "change": lambda: source_change(acting_user=who, source=made, every_s=60),
        "delete": lambda: source_delete(acting_user=who, source=made),
        "try": lambda: source_try(acting_user=who, source=made),
    }
    with pytest.raises(PermissionDenied):
        verbs[verb]()


def test_the_api_manages_a_source_from_its_first_day_to_its_last(
    operator: Client, receiver: Receiver
) -> None:
    receiver.body = exp.text(*exp.dcgm({"DEV_GPU_UTIL": 5})).encode()
    body = {"cluster": "sim", "name": "dcgm", "kind": "dcgm", "address": receiver.url, "secret": "hush-hush"}
    made = operator.post(LIST, body, content_type="application/json")
    assert made.status_code == 201, made.content
    told, at = made.json(), made.headers["Location"]
    assert (told["state"], told["has_secret"], told["problem"]) == ("waiting", True, "")
    assert "secret" not in told and b"hush-hush" not in made.content
    assert [node["state"] for node in told["nodes"]] == ["missing", "missing"]
    tried = operator.post(f"{at}/test", content_type="application/json").json()
    assert (tried["ok"], tried["exporters"], tried["measures"]) == (
        True,
        ["dcgm"],
        ["device.utilization_percent"],
    )
    assert receiver.requests[0].headers["authorization"] == "Bearer hush-hush"
    assert not SourceStatus.unscoped.exists()
    missing = operator.patch(at, {"every_s": 30}, content_type="application/json")
    assert missing.status_code == 428
    etag = {"If-Match": made.headers["ETag"]}
    changed = operator.patch(at, {"every_s": 30}, content_type="application/json", headers=etag)
    assert (changed.status_code, changed.json()["every_s"]) == (200, 30)
    assert (
        operator.patch(at, {"every_s": 40}, content_type="application/json", headers=etag).status_code == 412
    )
    assert operator.get(f"{LIST}?filterBy=kind==dcgm").json()["total"] == 1
    assert operator.get(f"{LIST}?filterBy=kind==prometheus").json()["total"] == 0
    etag = {"If-Match": changed.headers["ETag"]}
    assert operator.delete(at, headers=etag).status_code == 204
    assert operator.get(at).status_code == 404


def test_the_page_adds_tests_changes_and_deletes_a_source(operator: Client, receiver: Receiver) -> None:
    receiver.body = exp.text(*exp.dcgm({"DEV_GPU_UTIL": 5})).encode()
    assert "No data sources" in operator.get("/ops/sources").content.decode()
    form = {
        "do": "make",
        "cluster": "sim",
        "name": "dcgm",
        "kind": "dcgm",
        "address": receiver.url,
        "every_s": "15",
        "secret": "hush-hush",
        "enabled": "on",
    }
    wrong = operator.post("/ops/sources", form | {"address": "x"})
    assert wrong.status_code == 400 and "Enter an http://" in wrong.content.decode()
    at = operator.post("/ops/sources", form).headers["Location"]
    page = operator.get(at).content.decode()
    assert "Not read yet" in page and "node-1" in page and "hush-hush" not in page
    tried = operator.post(at, {"do": "test"}).content.decode()
    assert "Test passed" in tried and "Samples: 1." in tried
    receiver.status = 503
    failed = operator.post(at, {"do": "test"}).content.decode()
    assert "Test failed" in failed and "HTTP error" in failed
    made = TelemetrySource.unscoped.get()
    change = form | {"do": "change", "secret": "", "version": str(made.version)}
    assert operator.post(at, change | {"every_s": "60"}).status_code == 302
    made.refresh_from_db()
    assert (made.every_s, open_text(made.secret)) == (60, "hush-hush")
    stale = operator.post(at, change | {"every_s": "45"})
    assert stale.status_code == 400 and "changed since" in stale.content.decode()
    operator.post(at, change | {"version": str(made.version), "forget": "on"})
    made.refresh_from_db()
    assert made.secret == ""
    assert "Node agents" in operator.get("/ops/sources/agents").content.decode()
    operator.post("/ops/sources", {"one": f"disable {made.pk}"})
    assert "Disabled" in operator.get("/ops/sources?part=rows").content.decode()
    made.refresh_from_db()
    operator.post(at, {"do": "delete", "version": str(made.version)})
    assert not TelemetrySource.unscoped.exists()


def test_labels_are_typed_one_per_line(operator: Client) -> None:
    form = {
        "do": "make",
        "cluster": "sim",
        "name": "prom",
        "kind": "prometheus",
        "address": "http://10.0.0.1:9090",
        "every_s": "15",
        "matchers": 'cluster = "prod-1"\n\nzone=a',
    }
    assert operator.post("/ops/sources", form).status_code == 302
    assert TelemetrySource.unscoped.get().matchers == {"cluster": "prod-1", "zone": "a"}
    wrong = operator.post("/ops/sources", form | {"matchers": "cluster"})
    assert wrong.status_code == 400 and "label=value" in wrong.content.decode()


def test_no_error_of_the_service_shows_a_secret(there: World) -> None:
    with pytest.raises(AllotmentError) as refused:
        add(there, secret="hidden words\x00")
    assert "hidden" not in str(refused.value)
