"""Tags in the console: shown, clicked, typed, suggested, and changed for one job or several."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

import pytest
from django.test import Client

from foundation.core import clock
from scheduling.models import Job, JobState, JobTag
from scheduling.selectors.jobs.job_tag import job_tags_lately
from tests.builders import jobs, quotas
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

JOBS: Final = "/w/team-a/jobs"
SCRIPT: Final = "<script>alert(1)</script>"
SHOWN: Final = re.compile(r'<a class="job-tag" href="([^"]+)" title="[^"]*"><bdi>([^<]*)</bdi></a>')


@pytest.fixture
def w(db: None) -> World:
    return world()


def names(text: str) -> list[str]:
    return re.findall(r'<a href="/w/team-a/jobs/[0-9a-f-]{36}">([^<]+)</a>', text)


def suggested(text: str, key: str = "known-tags") -> list[str]:
    (options,) = re.findall(rf'<datalist id="{key}">(.*?)</datalist>', text)
    return [unescape(value) for value in re.findall(r'value="([^"]*)"', options)]


def test_a_click_on_a_tag_leaves_the_jobs_that_have_it(client: Client, w: World) -> None:
    one = jobs.job(w.queue, w.editor, "one", tags=["baseline", "a&b=c", "שלום", SCRIPT])
    jobs.job(w.queue, w.editor, "two", tags=["baseline"])
    jobs.job(w.queue, w.editor, "three")
    client.force_login(w.editor)
    whole = page(client, f"{JOBS}?state=waiting")
    assert SCRIPT not in whole
    links = {unescape(name): unescape(url) for url, name in SHOWN.findall(whole)}
    assert set(links) == {"baseline", "a&b=c"}, "further ones are counted, and named by a title"
    assert 'title="שלום, &lt;script&gt;alert(1)&lt;/script&gt;">+2</span>' in whole
    for name, url in links.items():
        assert "state=waiting" in url
        found = page(client, url)
        assert set(names(found)) == ({"one", "two"} if name == "baseline" else {"one"})
        assert "Tag is any of <b>" in found
    head = page(client, f"{JOBS}/{one.pk}")
    for url, name in SHOWN.findall(head):
        expected = {"one", "two"} if name == "baseline" else {"one"}
        assert set(names(page(client, unescape(url)))) == expected
    assert len(SHOWN.findall(head)) == 4 and SCRIPT not in head


def test_the_column_replaces_the_tags_below_the_name(client: Client, w: World) -> None:
    tags = [f"tag-{number}" for number in range(5)]
    jobs.job(w.queue, w.editor, "one", tags=tags)
    client.force_login(w.editor)
    assert len(SHOWN.findall(page(client, f"{JOBS}?who=all"))) == 2
    client.post("/lists/jobs", {"columns": ["name", "tags"]})
    assert [name for _url, name in SHOWN.findall(page(client, f"{JOBS}?who=all"))] == tags
    text = client.get(f"{JOBS}?who=all&format=csv").content.decode("utf-8-sig")
    assert text.splitlines() == ["Name,Tags", 'one,"tag-0, tag-1, tag-2, tag-3, tag-4"']


def test_tags_are_replaced_in_a_dialog(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "one", state=JobState.SUCCEEDED, finished_at=clock.now(), tags=["a"])
    client.force_login(w.editor)
    text = page(client, f"{JOBS}/{job.pk}")
    assert f'action="/w/team-a/jobs/{job.pk}/tags"' in text and 'name="tags" value="a"' in text
    answer = client.post(f"{JOBS}/{job.pk}/tags", {"tags": f" b ,, {SCRIPT}, b", "next": f"{JOBS}?q=o"})
    assert answer["Location"] == f"{JOBS}?q=o"
    job.refresh_from_db()
    assert job.tags == ["b", SCRIPT]
    assert set(JobTag.unscoped.filter(job=job).values_list("name", flat=True)) == {"b", SCRIPT}
    told = page(client, f"{JOBS}/{job.pk}?tab=timeline")
    assert "Tags of one updated" in told and SCRIPT not in told
    assert "ed added the tags b, &lt;script&gt;alert(1)&lt;/script&gt; and removed a" in told
    client.post(f"{JOBS}/{job.pk}/tags", {"tags": "x" * 64})
    assert "Maximum: 63 characters." in page(client, f"{JOBS}/{job.pk}")
    client.post(f"{JOBS}/{job.pk}/tags", {"tags": ",".join(f"t{number}" for number in range(21))})
    assert "Maximum: 20 entries." in page(client, f"{JOBS}/{job.pk}")
    job.refresh_from_db()
    assert job.tags == ["b", SCRIPT]
    client.force_login(w.viewer)
    assert "Edit tags" not in page(client, f"{JOBS}/{job.pk}")
    assert "Edit tags" not in page(client, f"{JOBS}?who=all")
    assert client.post(f"{JOBS}/{job.pk}/tags", {"tags": "mine"}).status_code == 403


def test_several_jobs_get_and_lose_tags_with_a_result_for_each(client: Client, w: World) -> None:
    ended = jobs.job(w.queue, w.editor, "ended", state=JobState.FAILED, finished_at=clock.now(), tags=["a"])
    full = jobs.job(w.queue, w.editor, "full", tags=[f"t{number}" for number in range(20)])
    others = jobs.job(w.queue, w.admin, "others")
    client.force_login(w.editor)
    assert "Add tags" in page(client, f"{JOBS}?who=all")
    asked = {"do": "add-tags", "item": [str(job.pk) for job in (ended, full, others)]}
    question = client.post("/w/team-a/job-batch", asked).content.decode()
    assert 'name="choice"' in question and "a" in suggested(question, "known-values")
    text = client.post("/w/team-a/job-batch", asked | {"choice": "a, b", "confirmed": "1"}).content.decode()
    assert "Done for 1 of 3" in text and "Maximum: 20 entries." in text
    assert Job.unscoped.get(pk=ended.pk).tags == ["a", "b"]
    done = {"do": "remove-tags", "item": [str(ended.pk), str(full.pk)], "choice": "a,t0", "confirmed": "1"}
    assert client.post("/w/team-a/job-batch", done).status_code == 302
    assert Job.unscoped.get(pk=ended.pk).tags == ["b"]
    assert len(Job.unscoped.get(pk=full.pk).tags) == 19
    assert client.post("/w/team-a/job-batch", done | {"choice": "a" * 70}).status_code == 302
    client.force_login(w.viewer)
    assert client.post("/w/team-a/job-batch", done).status_code == 403


def test_the_form_takes_tags_and_a_copy_keeps_them(client: Client, w: World) -> None:
    client.force_login(w.editor)
    typed = {
        "tab": "form",
        "do": "submit",
        "name": "one",
        "tags": "baseline, team:nlp",
        "roles-0-replicas": "1",
    }
    assert client.post(f"{JOBS}/new", typed).status_code == 302
    job = Job.unscoped.get()
    assert job.tags == ["baseline", "team:nlp"]
    copy = page(client, f"{JOBS}/new?from={job.pk}")
    assert 'name="tags" value="baseline, team:nlp"' in copy
    assert suggested(copy) == ["baseline", "team:nlp"]
    yaml = client.post(f"{JOBS}/new", typed | {"do": "to-yaml"}).content.decode()
    assert "- baseline" in yaml
    wrong = client.post(f"{JOBS}/new", typed | {"name": "two", "tags": "x" * 64}).content.decode()
    assert 'id="id_tags_error"' in wrong


def test_tags_of_others_are_neither_shown_nor_suggested(client: Client, w: World) -> None:
    jobs.job(w.queue, w.editor, "ours", tags=["ours"])
    theirs = jobs.job(w.other_queue, w.outsider, "theirs", tags=["theirs", "ours"])
    client.force_login(w.editor)
    for address in (f"{JOBS}?who=all", f"{JOBS}/new", f"{JOBS}?filterBy=tags==theirs"):
        text = page(client, address)
        assert suggested(text) == ["ours"] and ">theirs<" not in text.replace("<b>theirs</b>", "")
    assert names(page(client, f"{JOBS}?filterBy=tags==ours")) == ["ours"]
    assert client.post(f"/w/team-b/jobs/{theirs.pk}/tags", {"tags": "x"}).status_code == 404
    assert client.post(f"{JOBS}/{theirs.pk}/tags", {"tags": "x"}).status_code == 404
    client.force_login(w.outsider)
    assert suggested(page(client, "/w/team-b/jobs?who=all")) == ["ours", "theirs"]


def test_suggestions_are_the_most_used_of_the_newest_jobs(w: World) -> None:
    for number in range(3):
        jobs.job(w.queue, w.editor, tags=["often", f"once-{number}"])
    jobs.job(quotas.queue(w.cell, w.workspace, [w.flavor], name="night", cards=1), w.admin, tags=["once-0"])
    found = job_tags_lately(viewer=w.viewer, workspace=w.workspace)
    assert found == ["often", "once-0", "once-1", "once-2"]
    assert job_tags_lately(viewer=w.outsider, workspace=w.workspace) == []
