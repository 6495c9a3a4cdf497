"""Pages in Chinese have its punctuation, also where a page joins texts of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from alerts.models import AlertRule
from foundation.core import clock
from scheduling.models import JobState
from scheduling.services.cycle import cycle_run
from tests.builders import jobs
from tests.builders.world import world

pytestmark = pytest.mark.django_db
_HAN: Final = "[\u4e00-\u9fff]"
_WRONG: Final = re.compile(
    rf"{_HAN}[,;:?!]|{_HAN} ?[(]|[,;?!(]{_HAN}|[)]{_HAN}|[。！？；：，、] +\S|{_HAN}; |[（][^（）]*[)]"
)
_TOP: Final = (
    *("overview", "nodes", "gpus", "clusters", "flavors", "queues", "tenants", "quotas"),
    *("requests", "loans", "budgets", "policies", "priorities", "alerts", "alerts/rules?edit=new"),
    *("alerts/channels?edit=new", "sources", "audit", "reports", "prices", "system", "users", "groups"),
)
_OWN: Final = (
    *("overview", "jobs", "jobs/new", "quota", "requests", "usage", "alerts", "members", "keys"),
    *("members/permissions", "policy", "notebooks", "usage/preemptions", "limits", "job-templates"),
)


def _texts(page: str) -> Iterator[str]:
    soup = BeautifulSoup(page, "html.parser")
    for part in soup(["script", "style", "pre", "code", "textarea"]):
        part.decompose()
    for text in soup.find_all(string=True):
        yield re.sub(r"\s+", " ", text).strip()
    for tag in soup(True):
        yield from (str(tag.get(name, "")) for name in ("title", "aria-label", "placeholder", "alt"))


def test_pages_in_chinese_have_chinese_punctuation(client: Client) -> None:
    w, now = world(), clock.now()
    waits = jobs.job(w.queue, w.editor, "waits", roles=[jobs.RoleOf(cards=9)])
    runs = jobs.job(w.queue, w.editor, "runs", state=JobState.RUNNING, started_at=now - timedelta(hours=1))
    jobs.allocate(runs, w.nodes[0])
    cycle_run(cell_id=w.cell.pk)
    AlertRule.unscoped.create(
        name="links",
        metric="promql.value",
        query="up",
        threshold=1,
        error="too-many",
        unread_clusters=["sim"],
    )
    addresses = [f"/ops/{name}" for name in _TOP] + [f"/w/team-a/{name}" for name in _OWN]
    addresses += [f"/w/team-a/jobs/{one.pk}" for one in (waits, runs)] + [f"/w/team-a/jobs/{waits.pk}/check"]
    addresses += ["/account", "/messages", f"/ops/nodes/{w.nodes[0].name}"]
    client.force_login(w.platform_admin)
    wrong, read = {}, 0
    for address in addresses:
        answer = client.get(address, headers={"Accept-Language": "zh-hans"}, follow=True)
        if answer.status_code == 404:
            wrong[address] = ["404"]
            continue
        assert answer.status_code == 200, (address, answer.status_code)
        found = sorted({text for text in _texts(answer.content.decode()) if _WRONG.search(text)})
        read += 1
        if found:
            wrong[address] = found
    assert not wrong, "\n".join(f"{address}: {texts}" for address, texts in wrong.items())
    assert read == len(addresses)
