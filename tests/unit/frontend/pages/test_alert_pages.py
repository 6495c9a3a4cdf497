"""Rules, channels and silences: their lists, the forms that these open, and actions on several rows."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Final

import pytest
from django.test import Client

from alerts.models import AlertRule, AlertSeverity, NotificationChannel, Silence
from alerts.selectors.preview import RulePreview
from foundation.core import clock
from frontend.pages.alerts import rule_preview
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import ask_batch, post

RULES, CHANNELS, SILENCES = (f"/w/team-a/alerts/{name}" for name in ("rules", "channels", "silences"))
TYPED: Final = {
    "name": "load", "metric": "job.pending_s", "comparison": "above", "threshold": "60", "hold_s": "300",
    "resolve_s": "120", "severity": "warning", "repeat_s": "",
}  # fmt: skip


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def admin(client: Client, w: World) -> Client:
    client.force_login(w.admin)
    return client


def make_rules(w: World, *names: str) -> list[AlertRule]:
    facts = {"tenant": w.workspace, "metric": "job.pending_s", "threshold": 1}
    return [AlertRule.unscoped.create(name=name, **facts) for name in names]


def test_a_rule_is_created_and_changed_in_a_dialog(admin: Client, w: World) -> None:
    page = admin.get(RULES).content.decode()
    assert "data-list-dialog" not in page and f'href="{RULES}?edit=new"' in page
    form = admin.get(f"{RULES}?edit=new").content.decode()
    assert form.count("data-list-dialog ") + form.count("data-list-dialog>") == 1
    assert ">More than</option>" in form
    previewed = admin.post(RULES, TYPED | {"do": "preview"})
    assert previewed.status_code == 200 and "This rule covers no subjects now." in previewed.content.decode()
    assert "this rule would have fired 0 times" in previewed.content.decode()
    assert 'data-chart="rule-preview"' in previewed.content.decode()
    unknown = admin.post(
        RULES, TYPED | {"do": "preview", "metric": "quota.reserved_percent"}
    ).content.decode()
    assert "of reserved quota only the current amount is stored" in unknown and "data-chart=" not in unknown
    assert not AlertRule.unscoped.exists(), "a preview creates nothing"
    wrong = admin.post(RULES, TYPED | {"do": "create", "threshold": "much"})
    assert wrong.status_code == 400 and 'value="much"' in wrong.content.decode()
    assert "Rule created" in post(admin, RULES, **TYPED, do="create")
    made = AlertRule.unscoped.get()
    assert 'value="load"' in admin.get(f"{RULES}?edit={made.pk}").content.decode()
    assert "Rule updated" in post(admin, RULES, **TYPED | {"threshold": "90"}, do="change", row=made.pk)
    made.refresh_from_db()
    assert made.threshold == 90
    late = post(admin, RULES, **TYPED | {"threshold": "7"}, do="change", row=made.pk, version="0")
    made.refresh_from_db()
    assert made.threshold == 90 and 'value="7"' in late, "what was typed is kept beside the refusal"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (RulePreview(0, 0, ()), "This rule covers no subjects now."),
        (RulePreview(0, 0, (), unread_clusters=["east"]), ""),
        (RulePreview(3, 1, ()), "0 of 3 subjects meet the condition now. 1 have no current value."),
    ],
    ids=["nothing covered", "a cluster is not read", "some without a value"],
)
def test_a_preview_counts_only_subjects_that_exist(
    w: World, monkeypatch: pytest.MonkeyPatch, found: RulePreview, sentence: str
) -> None:
    monkeypatch.setattr(rule_preview, "preview_rule", lambda *_, **__: found)
    rule = AlertRule(tenant=w.workspace, metric="job.pending_s", threshold=1)

    shown = rule_preview.describe_preview(w.admin, rule).sentence

    assert shown.startswith(sentence) and "0 of 0" not in shown
    assert not found.unread_clusters or "east" in shown


def test_filters_stay_when_a_form_is_sent(admin: Client, w: World) -> None:
    (rule,) = make_rules(w, "slow")
    answer = admin.post(
        f"{RULES}?filterBy=name=@s&sort=-name",
        TYPED | {"do": "change", "row": str(rule.pk), "version": str(rule.version)},
    )
    assert answer["Location"] == f"{RULES}?filterBy=name%3D%40s&sort=-name"


def test_rules_are_disabled_and_deleted_together(admin: Client, w: World) -> None:
    first, second, third = make_rules(w, "a", "b", "c")
    admin.post(RULES, {"one": f"disable {first.pk}"})
    first.refresh_from_db()
    assert not first.enabled, "what loses nothing is done without a question"
    menu = admin.get(RULES).content.decode()
    assert f'value="enable {first.pk}"' in menu and f'value="disable {first.pk}"' not in menu
    question = admin.post(RULES, {"batch": "1", "do": "delete", "item": [str(second.pk), str(third.pk)]})
    assert "resolved without a notification" in question.content.decode()
    assert AlertRule.unscoped.count() == 3
    ask_batch(admin, RULES, "delete", second.pk, third.pk)
    assert list(AlertRule.unscoped.all()) == [first]
    assert (
        "Select at least one row"
        in admin.post(RULES, {"batch": "1", "do": "delete"}, follow=True).content.decode()
    )


def test_who_may_only_read_has_no_form_and_no_action(client: Client, w: World) -> None:
    (rule,) = make_rules(w, "slow")
    client.force_login(w.viewer)
    page = client.get(f"{RULES}?edit={rule.pk}").content.decode()
    assert "slow" in page and "data-list-dialog" not in page and "batch-bar" not in page
    assert client.post(RULES, {"one": f"delete {rule.pk}"}).status_code == 403
    assert client.post(RULES, TYPED | {"do": "create"}).status_code in (400, 403)
    assert AlertRule.unscoped.count() == 1


def test_channels_have_a_result_each(admin: Client, w: World) -> None:
    typed = {"name": "hook", "kind": "webhook", "address": "https://hooks.example.org/x", "language": "en"}
    assert "Channel created" in post(admin, CHANNELS, **typed, do="create")
    hook = NotificationChannel.unscoped.get()
    text = ask_batch(admin, CHANNELS, "test", hook.pk)
    assert "The test message wasn&#x27;t accepted" in text, "the network is blocked here"
    ask_batch(admin, CHANNELS, "disable", hook.pk)
    hook.refresh_from_db()
    assert not hook.enabled and "Disabled" in admin.get(CHANNELS).content.decode()


def test_a_channel_is_changed_in_a_dialog_and_its_templates_previewed(admin: Client, w: World) -> None:
    typed = {"name": "hook", "language": "en", "title_template": "GPU {rule}", "body_template": "{value}"}
    post(admin, CHANNELS, **typed, kind="webhook", address="https://hooks.example.org/x", do="create")
    hook = NotificationChannel.unscoped.get()
    sealed = hook.sealed_address
    form = admin.get(f"{CHANNELS}?edit={hook.pk}").content.decode()
    assert 'value="GPU {rule}"' in form and "hooks.example.org" not in form
    change = {**typed, "row": str(hook.pk), "version": str(hook.version)}
    shown = admin.post(CHANNELS, change | {"do": "preview"}).content.decode()
    assert "<b>GPU Long wait</b><span>1 h 15 min</span>" in shown
    wrong = admin.post(CHANNELS, change | {"do": "preview", "body_template": "{rule.tenant}"})
    assert wrong.status_code == 400 and "Unknown variable rule.tenant" in wrong.content.decode()
    assert "Channel updated" in post(admin, CHANNELS, **change | {"body_template": ""}, do="change")
    hook.refresh_from_db()
    assert (hook.body_template, hook.sealed_address) == ("", sealed)


def test_silences_end_and_stay_in_the_list(admin: Client, w: World) -> None:
    (rule,) = make_rules(w, "slow")
    form = admin.get(f"{SILENCES}?edit=new&rule={rule.pk}&subject=train").content.decode()
    assert f'value="{rule.pk}" selected' in form and 'value="train"' in form
    post(admin, SILENCES, do="create", rule=str(rule.pk), severity="", subject="train", hours="4")
    now = clock.now()
    over = Silence.unscoped.create(
        tenant=w.workspace,
        severity=AlertSeverity.INFO,
        starts_at=now - timedelta(hours=3),
        ends_at=now - timedelta(hours=1),
        created_by=w.admin,
    )
    made = Silence.unscoped.exclude(pk=over.pk).get()
    text = admin.get(SILENCES).content.decode()
    assert f'value="end {made.pk}"' in text and f'value="end {over.pk}"' not in text
    file = admin.get(f"{SILENCES}?format=csv&sort=ends_at").content.decode("utf-8-sig")
    assert [row["State"] for row in csv.DictReader(io.StringIO(file))] == ["Ended", "In effect"]
    ask_batch(admin, SILENCES, "end", made.pk)
    made.refresh_from_db()
    assert made.ends_at <= clock.now()
    assert admin.get(SILENCES).content.decode().count("<tr id=") == 2
