"""Job templates in the console: saved from the form, used in it, edited and deleted."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from scheduling.models import Job, JobTemplate
from tenants.models import Role
from tests.builders import jobs, tenancy
from tests.builders.world import World, world

HOME = "/w/team-a/job-templates"
NEW = "/w/team-a/jobs/new"
TEXT = "# nightly\nname: nightly\nkind: pytorch   # torchrun\nroles: [{replicas: 2}]\n"


@pytest.fixture
def w(db: None) -> World:
    return world()


def sent_form(client: Client, address: str, form_id: str) -> dict[str, str]:
    """Return what a browser sends of a form as the page shows it."""
    soup = BeautifulSoup(client.get(address).content, "html.parser")
    form = soup.find(id=form_id) or soup.select_one("main form")
    assert form is not None
    typed, boxes = form.select("input[name]:not([type=checkbox])"), form.select("input[checked]")
    found = {str(each["name"]): str(each.get("value", "")) for each in typed}
    found |= {str(each["name"]): str(each.get("value", "on")) for each in boxes}
    found |= {str(each["name"]): each.text.removeprefix("\n") for each in form.select("textarea[name]")}
    for each in form.select("select[name]"):
        chosen = each.select_one("option[selected]") or each.select_one("option")
        found[str(each["name"])] = str(chosen.get("value", "")) if chosen else ""
    return found


def saved(w: World, text: str = TEXT) -> JobTemplate:
    return JobTemplate.unscoped.create(
        workspace=w.workspace, name="nightly", text=text, saved_by=w.editor, saved_at=w.editor.date_joined
    )


def test_a_template_is_saved_from_the_form_with_its_comments(client: Client, w: World) -> None:
    client.force_login(w.editor)
    asked = client.post(NEW, {"tab": "yaml", "yaml": TEXT, "do": "save-template"})
    assert asked.status_code == 200 and "Create job template" in asked.content.decode()
    text = BeautifulSoup(asked.content, "html.parser").select_one("textarea[name=text]")
    assert text is not None and text.text.removeprefix("\n") == TEXT
    made = client.post(f"{HOME}/new", {"name": "nightly", "description": "all of it", "text": TEXT})
    assert made["Location"] == HOME
    found = JobTemplate.unscoped.get()
    assert (found.text, found.description, found.saved_by) == (TEXT, "all of it", w.editor)
    assert "all of it" in client.get(HOME).content.decode()


def test_a_wrong_line_keeps_the_form_open(client: Client, w: World) -> None:
    client.force_login(w.editor)
    typed = sent_form(client, NEW, "job-form") | {"environment": "LR", "do": "save-template"}
    answer = client.post(NEW, typed)
    assert answer.status_code == 400
    assert 'id="id_environment_error"' in answer.content.decode()


def test_the_form_starts_from_a_template_and_submits_it(client: Client, w: World) -> None:
    template = saved(w)
    client.force_login(w.editor)
    assert f"?template={template.pk}" in client.get(NEW).content.decode()
    typed = sent_form(client, f"{NEW}?template={template.pk}", "job-form")
    assert typed["source"].replace(typed["name"], "nightly") == TEXT
    assert typed["name"].startswith("nightly-") and typed["kind"] == "pytorch"
    sent = client.post(NEW, typed | {"do": "submit", "roles-0-cpu": "2"})
    assert sent.status_code == 302
    job = Job.unscoped.get()
    assert (job.kind, job.roles.get().replicas, job.roles.get().cpu_millicores) == ("pytorch", 2, 2000)
    assert client.get(f"{NEW}?template=nothing").status_code == 404
    assert client.get(f"{NEW}?template={w.editor.pk}").status_code == 404


def test_a_template_that_the_form_cannot_show_opens_as_yaml(client: Client, w: World) -> None:
    template = saved(w, "name: a\nroles: [7]\n")
    client.force_login(w.editor)
    assert 'name="tab" value="yaml"' in client.get(f"{NEW}?template={template.pk}").content.decode()


def test_a_template_is_made_from_a_job(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "origin")
    client.force_login(w.editor)
    typed = sent_form(client, f"{HOME}/new?from={job.pk}", "")
    assert typed["name"] == "origin" and "name: origin" in typed["text"]


def test_a_template_is_edited_and_deleted_under_its_version(client: Client, w: World) -> None:
    template = saved(w)
    address = f"{HOME}/{template.pk}"
    client.force_login(w.editor)
    typed = sent_form(client, address, "")
    assert client.post(address, typed | {"text": "a: ["}).status_code == 400
    assert client.post(address, typed | {"description": "changed"}).status_code == 302
    template.refresh_from_db()
    assert (template.description, template.text) == ("changed", TEXT)
    stale = client.post(address, typed | {"description": "late"})
    assert stale.status_code == 400 and "No changes were made" in stale.content.decode()
    client.post(address, {"do": "delete", "version": typed["version"]})
    assert JobTemplate.unscoped.exists()
    client.post(address, {"do": "delete", "version": template.version})
    assert not JobTemplate.unscoped.exists()


def test_viewers_read_templates_and_change_none(client: Client, w: World) -> None:
    template = saved(w)
    client.force_login(tenancy.user("vito", w.workspace, Role.VIEWER))
    assert "nightly" in client.get(HOME).content.decode()
    text = client.get(f"{HOME}/{template.pk}").content.decode()
    assert "# torchrun" in text and 'value="delete"' not in text
    assert client.post(f"{HOME}/{template.pk}", {"do": "save", "name": "x", "text": "a: 1"}).status_code in (
        400,
        403,
    )
    assert client.get(f"{HOME}/new").status_code == 403
    assert JobTemplate.unscoped.get().name == "nightly"


def test_the_form_and_the_job_offer_texts_that_submit_it(client: Client, w: World) -> None:
    client.force_login(w.editor)
    soup = BeautifulSoup(
        client.post(NEW, {"tab": "yaml", "yaml": TEXT, "do": "copies"}).content, "html.parser"
    )
    assert all(TEXT in soup.select_one(f"#copy-{key}").text for key in ("cli", "curl", "python"))  # type: ignore[union-attr]
    assert soup.select_one("#id_yaml") is not None
    job = jobs.job(w.queue, w.editor, "origin")
    page = client.get(f"/w/team-a/jobs/{job.pk}?tab=spec").content.decode()
    assert "allotment-client submit" in page and f"{HOME}/new?from={job.pk}" in page
    wrong = sent_form(client, NEW, "job-form") | {"environment": "LR", "do": "copies"}
    assert client.post(NEW, wrong).status_code == 400
