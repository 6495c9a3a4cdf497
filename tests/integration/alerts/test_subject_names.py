"""Texts about alerts name resources in the words of the console, and contain no key and no id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from itertools import cycle
from typing import Any, Final

import pytest
from django.test import Client
from django.utils import translation

from alerts.delivery.console_messages import send_console_messages
from alerts.delivery.message_text import write_title
from alerts.delivery.messages import write_message
from alerts.delivery.webhook import write_webhook
from alerts.evaluation.notifications import matches_silence
from alerts.metrics.catalogue import METRICS
from alerts.metrics.subject_names import QUOTA_METRIC, build_shown_label, is_same_subject, name_subject
from alerts.models import Alert, AlertRule, Notification, NotificationChannel, Silence, UserMessage
from alerts.selectors.alerts import COLUMNS, list_alerts
from alerts.selectors.preview import preview_rule
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.web.listing import filter_rows, parse_condition
from frontend.pages.alerts.rule_preview import describe_preview
from quotas.texts.amounts import resource_label
from scheduling.models import Job
from tenants.models import User
from tests.builders import quotas
from tests.integration.telemetry.conftest import Bench, make_bench

LANGUAGES: Final = ("en", "zh-hans")
KEYS: Final = "|".join(
    (
        *(re.escape(metric.name) for metric in METRICS),
        *(rf"(?<![\w.]){re.escape(resource)}(?![\w.])" for resource in Resource if "." in resource),
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    )
)


@pytest.fixture
def bench(db: None) -> Any:
    with make_bench() as made:
        yield made


def _fire_all(bench: Bench) -> Iterator[Alert]:
    """Store a firing alert for every subject that any metric has."""
    bench.ticks(3)
    Job.unscoped.filter(pk__in=[bench.sliced.pk, bench.whole.pk]).update(state="running")
    now = clock.now()
    for metric in METRICS:
        rule = AlertRule.unscoped.create(name=f"rule on {metric.label}", metric=metric.name, threshold=0)
        for seen in metric.read(now):
            yield Alert.unscoped.create(
                rule=rule,
                rule_name=rule.name,
                metric=metric.name,
                comparison="above",
                threshold=0,
                severity="warning",
                subject=seen.subject,
                label=seen.label,
                path=seen.path,
                tenant_id=seen.tenant_id,
                value=1,
                state="firing",
                started_at=now,
                fired_at=now,
            )


def _write_texts(alerts: list[Alert], reader: User, client: Client, language: str) -> Iterator[str]:
    channel = NotificationChannel(name="hook", kind="message", language=language)
    events = ("firing", "reminder", "resolved")
    for event in events:
        items = [Notification(alert=alert, channel=channel, event=event, value=1) for alert in alerts]
        message = write_message(items, message_id=event, language=language)
        yield from (line for item in message.items for line in (item.title, *item.lines))
        hook = json.loads(write_webhook(message, receiver="hook"))
        for one in hook["alerts"]:
            yield from (one["labels"]["subject_name"], *one["annotations"].values())
        assert send_console_messages(channel, message, reader.username) == 1
    with translation.override(language):
        titles = [write_title(message) for message in UserMessage.unscoped.all()]
        assert len(titles) == len(events) * len(alerts)
        yield from titles
        yield from (name_subject(alert.metric, alert.label) for alert in alerts)
    client.cookies["allotment_language"] = language
    for address in ("/ops/alerts?limit=100", "/ops/alerts?format=csv", "/messages"):
        yield _drop_markup(client.get(address).content.decode())


def _drop_markup(page: str) -> str:
    """Return what a page shows: its text without scripts, styles and tags."""
    body = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", page.partition("<body")[2] or page)
    return unescape(re.sub(r"<[^>]*>", "\n", body))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_about_an_alert_has_a_key_or_an_id(bench: Bench, client: Client, language: str) -> None:
    client.force_login(bench.world.platform_admin)
    quotas.reserve(bench.world.queue, bench.world.flavor, Resource.GPU_CARDS, 2)
    alerts = list(_fire_all(bench))
    of_quota = [alert for alert in alerts if alert.metric == "quota.reserved_percent"]
    assert {alert.subject.rpartition("/")[2] for alert in of_quota} >= {
        "gpu.cards",
        "gpu.cores",
        "gpu.memory",
    }
    texts = list(_write_texts(alerts, bench.world.platform_admin, client, language))
    assert [found for text in texts for found in re.findall(KEYS, text)] == []
    words = {"en": ("GPU memory", "GPU compute", "GPUs"), "zh-hans": ("显存", "GPU 算力", "GPU 数")}
    for word in words[language]:
        assert any(text.endswith(f", {word}") for text in texts), word


def test_labels_that_were_stored_as_keys_read_and_are_silenced_in_any_language(bench: Bench) -> None:
    now = clock.now()
    words = {"en": "Team A, a100, GPU memory", "zh-hans": "Team A, a100, 显存"}
    stored = "Team A, a100, gpu.memory"
    for language, name in words.items():
        with translation.override(language):
            assert {name_subject(QUOTA_METRIC, each) for each in (stored, *words.values())} == {name}
    alert = Alert(subject="a/b/gpu.memory", label=words["en"], metric="quota.reserved_percent")
    for typed in (stored, alert.subject, *words.values()):
        assert matches_silence(Silence(subject=typed, starts_at=now, ends_at=now), alert, ""), typed
    assert not is_same_subject(QUOTA_METRIC, "Team A, a100, GPUs", words["en"])
    for label in ("node-1, GPU 3", "GPU memory", ""):
        assert name_subject(QUOTA_METRIC, label) == label


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_for_resources_in_names_of_other_subjects_stay_as_they_are(
    bench: Bench, client: Client, language: str
) -> None:
    client.force_login(bench.world.platform_admin)
    names = {str(resource) for resource in Resource}
    for each in LANGUAGES:
        with translation.override(each):
            names |= {resource_label(resource) for resource in Resource}
    labels = [f"Team A, {name}" for name in sorted(names)]
    one_of_each = {alert.metric: alert for alert in _fire_all(bench) if alert.metric != QUOTA_METRIC}
    alerts = list(one_of_each.values())
    assert len(alerts) > 2 * len(labels)
    Alert.unscoped.exclude(pk__in=[alert.pk for alert in alerts]).delete()
    for alert, label in zip(alerts, cycle(labels), strict=False):
        alert.label = label
        alert.save()
    texts = list(_write_texts(alerts, bench.world.platform_admin, client, language))
    endings = set(re.findall(r"Team A, [^\n,\"]*$", "\n".join(texts), re.MULTILINE))
    assert endings == set(labels)
    with translation.override(language):
        shown = Alert.unscoped.annotate(shown=build_shown_label("label")).values_list("shown", "label")
        assert not [pair for pair in shown if pair[0] != pair[1]]
    known = {(alert.metric, alert.label) for alert in alerts}
    assert not [
        (label, other)
        for metric, label in known
        for other in labels
        if is_same_subject(metric, other, label) is not (other == label)
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_are_found_by_what_is_shown_and_by_what_is_stored(bench: Bench, language: str) -> None:
    quotas.reserve(bench.world.queue, bench.world.flavor, Resource.GPU_CARDS, 2)
    alerts = list(_fire_all(bench))
    older = next(alert for alert in alerts if alert.label.endswith(", GPU memory"))
    Alert.unscoped.filter(pk=older.pk).update(label=older.label.replace("GPU memory", "gpu.memory"))

    def find(condition: str) -> set[object]:
        rows = list_alerts(bench.world.platform_admin, None)
        return set(filter_rows(rows, [parse_condition(condition, COLUMNS)]).values_list("pk", flat=True))

    with translation.override(language):
        labels = {
            alert.pk: (name_subject(alert.metric, alert.label), alert.label) for alert in Alert.unscoped.all()
        }
        everything, shown = set(labels), {name for name, _label in labels.values()}
        for text in {*shown, *(name.rpartition(", ")[2] for name in shown)}:
            holding = {pk for pk, (name, _label) in labels.items() if text.lower() in name.lower()}
            stored = {pk for pk, (_name, label) in labels.items() if text.lower() in label.lower()}
            assert holding and find(f"subject_name=@{text}") == holding | stored, text
            assert find(f"subject_name!@{text}") == everything - holding - stored, text
            ending = {pk for pk, (name, _label) in labels.items() if name.endswith(text)}
            assert ending <= find(f"subject_name=${text}"), text
            same = {pk for pk, names in labels.items() if text in names}
            assert find(f"subject_name=={text}") == same, text


def test_the_list_of_alerts_finds_the_words_of_its_language(bench: Bench, client: Client) -> None:
    client.force_login(bench.world.platform_admin)
    quotas.reserve(bench.world.queue, bench.world.flavor, Resource.GPU_CARDS, 2)
    shown = {alert.label for alert in _fire_all(bench) if alert.label.endswith(", GPU memory")}
    for language, word in (("zh-hans", "显存"), ("zh-hans", "GPU memory"), ("en", "GPU memory")):
        client.cookies["allotment_language"] = language
        page = client.get("/ops/alerts", {"filterBy": f"subject_name=@{word}", "format": "csv"})
        assert len(page.content.decode().strip().splitlines()) == 1 + len(shown), (language, word)
    client.cookies["allotment_language"] = "en"
    page = client.get("/ops/alerts", {"filterBy": "subject_name=@显存", "format": "csv"})
    assert len(page.content.decode().strip().splitlines()) == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_preview_names_the_resource(bench: Bench, language: str) -> None:
    quotas.reserve(bench.world.queue, bench.world.flavor, Resource.GPU_CARDS, 2)
    rule = AlertRule(metric="quota.reserved_percent", comparison="above", threshold=0)
    admin = bench.world.platform_admin
    assert preview_rule(admin, rule, now=clock.now()).meeting
    with translation.override(language):
        found = describe_preview(admin, rule)
    assert found.examples and not [name for name, _value in found.examples if re.search(KEYS, name)]
