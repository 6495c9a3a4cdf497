"""The documents say what the code does: every variable is described, every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foundation.core.reasons import Reason
from scheduling.job_file.declaration.describing import fields_page
from scheduling.job_file.declaration.reasons_page import reasons_page

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_every_variable_is_described() -> None:
    code = [*(ROOT / "platform").rglob("*.py"), *(ROOT / "scheduling").rglob("*.py")]
    read = {name for file in code for name in re.findall(r'"(ALLOTMENT_[A-Z_]+)"', file.read_text())}
    variables = {name for name in read if not name.startswith("ALLOTMENT_OIDC")}
    described = set(re.findall(r"`(ALLOTMENT_[A-Z_]+)`", (ROOT / "docs" / "settings.md").read_text()))
    internal = {"ALLOTMENT_PENDING_JOBS_MAX", "ALLOTMENT_MIN_RUN_MAX_S"}  # Django settings, not variables
    of_tasks = {"ALLOTMENT_JOB"}  # set in a job's own processes: `docs/jobs.md`
    assert variables - internal - of_tasks <= described


def test_the_page_of_the_fields_of_a_job_file_is_current() -> None:
    page = (ROOT / "docs" / "job-file.md").read_text()
    assert page == fields_page(), "run: allotment job fields > docs/job-file.md"


def test_the_page_of_reason_codes_is_current() -> None:
    page = (ROOT / "docs" / "reasons.md").read_text()
    assert page == reasons_page(), "run: allotment job reasons > docs/reasons.md"
    headings = {f"docs/reasons.md#{heading.lower()}" for heading in re.findall(r"^## (.+)$", page, re.M)}
    assert headings == {reason.anchor for reason in Reason}


@pytest.mark.parametrize("document", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"])
def test_every_file_and_folder_that_is_named_exists(document: Path) -> None:
    """Check that no checklist and no way through the code names a file that has moved."""
    named = re.findall(r"`([a-z_]+(?:/[a-z_-]+)*(?:/[a-z_-]+/|\.py|\.js))`", document.read_text())
    tops = (
        ROOT / part for part in ("docs", "frontend", "platform", "quotas", "scheduling", "tenants", "tests")
    )
    there = {f"/{path.relative_to(ROOT)}" for top in tops for path in top.rglob("*")}
    missing = [name for name in named if not any(path.endswith(f"/{name.rstrip('/')}") for path in there)]
    assert len(named) > 20
    assert missing == []


def test_each_variable_has_one_row() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    names = [name for row in re.findall(r"^\| (`.*?) \|", page, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert len(names) > 40
    assert sorted(names) == sorted(set(names))


def find_anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_headings_lead_to_one(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#]*\.md)?#([^)]+)\)", document.read_text())
    missing = [
        f"{target}#{anchor}"
        for target, anchor in links
        if anchor not in find_anchors(document.parent / target if target else document)
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text())
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing
