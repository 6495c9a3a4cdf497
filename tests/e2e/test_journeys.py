"""Main tasks of users, in a real browser on one running platform; each user is signed in."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, Route, expect

from benchmarks.support.running import RunningPlatform, run_platform
from tests.e2e.followed_log import (
    save_lines,
    search_lines,
    show_lines_of_one_moment,
    stay_further_up,
    steps_of,
    wait_for_lines,
)
from tests.e2e.journey_people import SOON_MS, People, cancel_job, expect_state, head, press_submit, submit_job
from tests.e2e.journey_world import POOLS, RECORDED_JOBS
from tests.fixtures.browser import chromium, chromium_path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def running(migrated_file: Path) -> Iterator[RunningPlatform]:
    chromium_path()  # skips the test before anything is started
    with run_platform(world=("tests.e2e.journey_world",), migrated=migrated_file) as it:
        yield it


@pytest.fixture(scope="module")
def all_people(running: RunningPlatform) -> Iterator[People]:
    with chromium() as browser:
        expect.set_options(timeout=SOON_MS)
        yield People(browser, running.url)


@pytest.fixture
def people(all_people: People) -> Iterator[People]:
    """Yield all users without open pages; errors in the pages that a test opens fail the test."""
    all_people.problems.clear()
    yield all_people
    all_people.close_pages()
    assert all_people.problems == []


def test_a_recommendation_is_taken_and_the_changed_copy_starts(people: People) -> None:
    page = people.open_page("vic")
    submit_job(page, "vision", "wide", 6)
    reason, helps = page.locator("#why"), page.locator("#help")
    expect(reason).to_contain_text("Requests 6 GPUs of h100; the queue's maximum is 4 GPUs.")
    promise = helps.get_by_role("listitem").filter(has_text="Reduce GPUs per task to at most 4")
    expect(promise).to_contain_text("The job can start afterwards.")
    waiting = page.url

    promise.get_by_role("link", name="Try this change: starts now").click()
    expect(page.locator("#id_roles-0-cards")).to_have_value("4")
    copy = page.locator("#id_name").input_value()
    assert re.fullmatch("wide-[0-9a-f]{4}", copy)
    expect(page.locator("#rail")).to_contain_text("Starts immediately")
    press_submit(page)
    expect_state(page, "Running")
    expect(head(page)).to_contain_text("4 × GPU")

    # Times in fragments that are fetched later are in the reader's zone at once, not at the next refresh.
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Shanghai"})
    page.add_init_script("window.setInterval = () => 0")
    page.goto(waiting)
    expect_state(page, "Pending")
    expect(reason).to_contain_text("Requests 6 GPUs of h100; the queue's maximum is 4 GPUs.")
    expect(page.locator("#later-checks time")).to_have_attribute("title", re.compile(r"GMT\+8$"))


def test_a_job_starts_when_a_counter_offer_is_accepted(people: People) -> None:
    owner, admin = people.open_page("vic"), people.open_page("carl")
    submit_job(owner, "speech", "broad", 6)
    short = owner.locator("#help").get_by_role("listitem").filter(has_text="Request more quota in h100")
    expect(short).to_contain_text("4 GPUs, 160 GiB GPU memory. The job can start afterwards.")
    asking = people.open_page("vic")
    asking.goto(owner.url)
    owner.evaluate("window.notReloaded = true")

    asking.locator("#help").get_by_role("link", name="Request quota: starts now").click()
    expect(asking.get_by_text("Filled in for job broad")).to_be_visible()
    expect(asking.locator('[name="gpu.cards.nominal"]')).to_have_value("6")
    asking.get_by_role("textbox", name="Reason").fill("A wider model.")
    asking.get_by_role("button", name="Submit request").last.click()
    expect(asking.get_by_text("Request submitted. Requests are decided by parent admins.")).to_be_visible()

    admin.goto("/ops/requests")
    admin.get_by_role("link", name="Review").click()
    expect(admin.locator("#asked")).to_contain_text("A wider model.")
    offer = admin.locator("#counter-form")
    offer.locator("#counter-answer").fill("One to spare.")
    offer.locator("#quota-gpus").fill("7")
    offer.get_by_role("button", name="Fill").click()
    expect(offer.locator('[name="gpu.cards.nominal"]')).to_have_value("7")
    offer.get_by_role("button", name="Send proposal").first.click()
    admin.get_by_role("dialog").get_by_role("button", name="Send proposal").click()
    expect(admin.get_by_text("Proposal sent to the requester")).to_be_visible()

    expect_state(owner, "Pending")
    asking.reload()
    line = asking.locator("table.listing tbody tr").first
    expect(line).to_contain_text("One to spare.")
    expect(line).to_contain_text("7 GPUs")
    line.get_by_role("button", name="Accept").click()
    asking.get_by_role("dialog").get_by_role("button", name="Accept").click()
    expect(asking.get_by_text("Proposal accepted. Quota updated.")).to_be_visible()

    expect_state(owner, "Running")
    assert owner.evaluate("window.notReloaded"), "the page was refreshed in place"
    owner.goto("/w/speech/quota")
    quota = owner.get_by_role("row").filter(has_text="5 unassigned").get_by_role("cell")
    expect(quota.nth(2)).to_have_text("7")
    expect(quota.nth(3)).to_have_text("6")


def age_run(running: RunningPlatform, job: str, hours: int) -> None:
    """Move the start of a job's run into the past by so many hours."""
    with closing(sqlite3.connect(running.home / "allotment.sqlite3", timeout=60)) as base, base:
        began = f"{datetime.now(UTC) - timedelta(hours=hours):%Y-%m-%d %H:%M:%S.%f}"
        of_job = "(SELECT id FROM scheduling_job WHERE name = ?)"
        attempts = f"UPDATE scheduling_attempt SET admitted_at = ?, started_at = ? WHERE job_id = {of_job}"
        assert base.execute(attempts, (began, began, job)).rowcount == 1
        base.execute(
            "UPDATE scheduling_job SET admitted_at = ?, started_at = ? WHERE name = ?", (began, began, job)
        )


def test_an_owner_sees_who_preempted_a_job_by_which_rule_and_what_it_cost(
    people: People, running: RunningPlatform
) -> None:
    ann, amy, zoe = map(people.open_page, ("aurora-ann", "aurora-amy", "zephyr-zoe"))
    submit_job(ann, "aurora", "aurora-train", 8)
    expect_state(ann, "Running")
    age_run(running, "aurora-train", 5)

    # A colleague's job is named as the preemptor.
    submit_job(amy, "aurora", "aurora-urgent", 8, priority="high")
    timeline = ann.locator("#timeline")
    expect(timeline).to_contain_text("Preempted by aurora-urgent, which is ahead of it in the same queue")
    expect(timeline).to_contain_text("GPU-hours lost: 40.0")
    expect_state(ann, "Pending")
    expect_state(amy, "Running")
    age_run(running, "aurora-urgent", 2)

    # A preemptor of another tenant is mentioned without any detail.
    submit_job(zoe, "zephyr", "zephyr-claim", 4)
    expect_state(zoe, "Running")
    timeline = amy.locator("#timeline")
    expect(timeline).to_contain_text("Ran on borrowed quota that its owner reclaimed")
    expect(timeline).to_contain_text("GPU-hours lost: 16.0")
    assert "zephyr" not in amy.content().lower()

    timeline.get_by_role("link", name="Preemptions in this workspace").click()
    rows = amy.locator("#preemptions tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("Preempted by a job ahead of it in the same queue")
    assert rows.nth(0).get_by_role("cell").all_inner_texts()[1:] == [
        "Jobs of the same workspace",
        "1",
        "40.0",
    ]
    assert rows.nth(1).get_by_role("cell").all_inner_texts()[1:] == ["Another tenant", "1", "16.0"]
    expect(amy.locator(".tile").filter(has_text="Lost to preemption")).to_contain_text("56.0")


def test_a_replay_is_started_and_its_address_opens_for_another_admin(
    people: People, running: RunningPlatform
) -> None:
    page = people.open_page("boss")
    page.goto("/ops/replays")
    page.get_by_role("link", name="New replay").first.click()
    now = datetime.now(UTC).replace(minute=0)
    page.locator("#id_begin_at").fill(f"{now - timedelta(hours=RECORDED_JOBS + 25):%Y-%m-%dT%H:%M}")
    page.locator("#id_end_at").fill(f"{now - timedelta(hours=12):%Y-%m-%dT%H:%M}")
    page.locator("#id_name").fill("Four nodes")
    page.locator("#id_pool").select_option(label="v100 (sim)")
    page.locator("#id_pool_nodes").fill("4")
    page.get_by_role("button", name="Start replay").click()
    expect(page.get_by_role("progressbar", name="Progress")).to_be_visible()
    page.evaluate(WATCH_PROGRESS)
    # The page loads again by itself, with the result.
    expect(page.locator("#totals")).to_be_visible()
    seen = page.evaluate("JSON.parse(sessionStorage.getItem('seen'))")

    assert seen == sorted(seen)
    note = page.locator("#limits").inner_text()
    took = re.search(r"Computed in (\d+) s", note)
    assert took is not None, note
    assert int(took[1]) < 6 or max(seen) > 0, "progress is reported twice a second and shown every other"
    shown = page.locator("#totals").inner_text()
    assert figures_of(page, "Wait, median") == ["2 d 1 h", "2 d 1 h", "12 h", "−1 d 13 h better"]
    assert figures_of(page, "Wait, 90th percentile") == ["3 d 17 h", "3 d 17 h", "22 h", "−2 d 19 h better"]
    assert figures_of(page, "Preemptions") == ["0", "0", "0", "0"]
    gpus = sum(nodes * cards for _name, _model, nodes, cards in POOLS)
    of_hours = 100 * 8 * RECORDED_JOBS / (RECORDED_JOBS + 13)
    before, after = (f"{of_hours / (gpus + more):.1f} %" for more in (0, 3 * 8))
    assert figures_of(page, "Allocation rate")[:3] == [before, before, after]
    expect(page.locator("#teams")).to_contain_text("Archive")
    page.locator("#allocated .scatterlayer path.js-line").first.wait_for(state="attached")

    other = people.open_page("bess")
    other.goto(page.url)
    expect(other.get_by_role("heading", name="Four nodes")).to_be_visible()
    assert other.locator("#totals").inner_text() == shown
    member = people.open_page("vic")
    answer = member.goto(page.url)
    assert answer is not None and answer.status in {403, 404}
    assert "Four nodes" not in member.content()


WATCH_PROGRESS: Final = """() => {
    const seen = []
    const note = () => {
        const bar = document.querySelector("[role=progressbar]")
        if (bar) seen.push(Number(bar.getAttribute("aria-valuenow")))
        sessionStorage.setItem("seen", JSON.stringify(seen))
    }
    note()
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true })
}"""


def figures_of(page: Page, figure: str) -> list[str]:
    """Return the cells of a row of the comparison: measured, as recorded, with the change, difference."""
    row = page.locator("#totals tbody tr").filter(has=page.get_by_role("cell", name=figure, exact=True))
    return [" ".join(text.split()) for text in row.get_by_role("cell").all_inner_texts()[1:]]


def test_a_log_is_followed_while_worker_and_server_are_restarted(
    people: People, running: RunningPlatform
) -> None:
    page = people.open_page("vic")
    submit_job(page, "printing", "told", 1)
    expect_state(page, "Running")
    page.get_by_role("link", name="Logs").click()
    state, switch = page.locator("[data-log-state]"), page.get_by_role("switch", name="Follow")
    switch.check()
    page.evaluate("window.notReloaded = true")
    expect(state).to_have_text("Following")
    wait_for_lines(page, 0)

    # The web process reads the lines itself: a restart of the worker doesn't interrupt the log.
    worker = running.process_ids()["worker"]
    os.kill(worker, signal.SIGKILL)
    wait_for_lines(page, len(steps_of(page)))
    expect(state).to_have_text("Following")
    os.kill(running.process_ids()["web"], signal.SIGKILL)
    expect(state).to_have_text(re.compile("Disconnected at"))
    expect(state).to_have_text("Following")
    wait_for_lines(page, len(steps_of(page)))
    shown = steps_of(page)
    assert shown == list(range(20, shown[-1] + 20, 20)), "each line once, and none is missing"

    stay_further_up(page)
    with page.expect_event("requestfailed", lambda request: "follow=true" in request.url):
        switch.uncheck()
    expect(state).to_have_text("")
    switch.check()
    wait_for_lines(page, len(steps_of(page)))

    search_lines(page)

    # Another choice of lines is followed as well.
    page.get_by_label("Task", exact=True).select_option("main-0")
    expect(page.locator("#log-lines")).to_have_attribute("data-task", "main-0")
    expect(switch).to_be_checked()
    wait_for_lines(page, len(steps_of(page)))
    assert "task=main-0" in page.url
    save_lines(page)

    # The next worker ends the job, and with it the log.
    assert running.process_ids().get("worker") != worker
    other = people.open_page("vic")
    other.goto(page.url)
    cancel_job(other)
    expect(state).to_have_text("All containers terminated.")
    expect_state(page, "Canceled")
    assert page.evaluate("window.notReloaded"), "the page was refreshed in place"
    show_lines_of_one_moment(page)


def test_two_tenants_see_nothing_of_each_other(people: People) -> None:
    """Both use one pool, wait for each other's GPUs, and have preempted each other's jobs by now."""
    pages = {"aurora": people.open_page("aurora-ann"), "zephyr": people.open_page("zephyr-zoe")}
    for own, page in pages.items():
        submit_job(page, own, f"{own}-secret", 4)
    jobs = {own: page.url.rpartition("/")[2] for own, page in pages.items()}
    for own, other in (("aurora", "zephyr"), ("zephyr", "aurora")):
        page = pages[own]
        answers = record_answers(page)
        walk(page, own, answers)
        guess(page, own, other, jobs[other], answers)
        page.goto(f"/w/{own}/jobs/{jobs[own]}")
        for token in (other, jobs[other]):
            # Texts that were typed into an address may be shown again.
            told = [url for url, text in answers if token in text.lower() and token not in url]
            assert told == [], f"{own} is told {token}"
        assert sum(own in text for _url, text in answers) > len(answers) / 2, "names are in the answers"
        page.unroute_all(behavior="wait")

    for own, page in pages.items():
        page.evaluate(FOLLOW_EVENTS, own)
    for own, user in (("zephyr", "zephyr-zoe"), ("aurora", "aurora-ann")):
        page = pages[own]
        beside = people.open_page(user)
        beside.goto(page.url)
        cancel_job(beside)
        page.wait_for_function("() => window.told.some(text => text.includes('-secret'))")
    # Events come in order: a stream that has sent the last one has skipped those before it.
    assert "zephyr" not in pages["aurora"].evaluate("window.told.join()")
    assert "aurora" not in pages["zephyr"].evaluate("window.told.join()")


FOLLOW_EVENTS: Final = """own => new Promise((opened) => {
    window.told = []
    const events = new EventSource(`/api/v1/events?workspace=${own}`)
    events.addEventListener("job", ({ data }) => window.told.push(data))
    events.onopen = opened
})"""


def record_answers(page: Page) -> list[tuple[str, str]]:
    """Record the address and the text of each answer that the page gets from here on."""
    answers: list[tuple[str, str]] = []

    def pass_on(route: Route) -> None:
        if route.request.resource_type == "eventsource":
            return route.continue_()
        answer = route.fetch()
        answers.append((route.request.url, answer.text()))
        return route.fulfill(response=answer)

    page.route(lambda url: "/static/" not in url and "/events?" not in url, pass_on)
    return answers


def walk(page: Page, own: str, answers: list[tuple[str, str]]) -> None:
    """Open every page of the side bar, those of the job and of preemptions, and the search."""
    job = page.url
    entries = page.locator(".side").get_by_role("link").all_inner_texts()
    for entry in range(len(entries)):
        page.locator(".side").get_by_role("link").nth(entry).click()
        read_parts(page, answers)
    assert len(entries) >= 10
    parts = (job, f"{job}?tab=timeline", f"{job}?tab=spec")
    for address in (*parts, f"/w/{own}/usage/preemptions", f"/w/{own}/jobs?part=rows", f"/search?q={own}"):
        page.goto(address)
        read_parts(page, answers)
    expect(page.locator("#content").get_by_text(f"{own}-secret").first).to_be_visible()


def read_parts(page: Page, answers: list[tuple[str, str]]) -> None:
    """Wait for the parts that the page loads by itself, and read its charts."""
    page.wait_for_load_state("load")
    expect(page.get_by_text("Loading…")).to_have_count(0)
    charts = page.locator("[data-chart-url]").evaluate_all("found => found.map(one => one.dataset.chartUrl)")
    answers += [(address, page.request.get(address).text()) for address in charts]


def guess(page: Page, own: str, other: str, job: str, answers: list[tuple[str, str]]) -> None:
    """Search for the job of the other tenant by name and by ID."""
    page.get_by_role("searchbox").first.fill(f"{other}-secret")
    page.get_by_role("searchbox").first.press("Enter")
    expect(page.get_by_text("No results")).to_be_visible()
    for address in (f"/w/{own}/jobs/{job}", f"/w/{other}/jobs/{job}", f"/w/{other}/overview"):
        answer = page.goto(address)
        assert answer is not None and answer.status == 404, address
    hidden = (
        f"/w/{own}/jobs/{job}/live", f"/w/{own}/jobs/{job}/log", f"/api/v1/workspaces/{own}/jobs/{job}",
        f"/api/v1/workspaces/{other}/jobs/{job}", f"/api/v1/events?workspace={other}",
    )  # fmt: skip
    for address in hidden:
        found = page.request.get(address)
        assert found.status == 404, address
        answers.append((address, found.text()))
    assert page.request.get("/api/v1/events").status == 403
