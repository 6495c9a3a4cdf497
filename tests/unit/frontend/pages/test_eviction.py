"""The page of a job explains why it was evicted or stopped."""

from __future__ import annotations

from frontend.pages.jobs.events.eviction import explain_rule


def test_a_budget_that_stopped_a_job_is_named_with_its_numbers() -> None:
    numbers = {"rule": "BUDGET", "tenant": "Research", "used_hours": 101, "budget_hours": 100}
    assert explain_rule("BUDGET", numbers) == "Monthly budget of Research exhausted (101 of 100 GPU-hours)"
    assert explain_rule("BUDGET", {"rule": "BUDGET"}) == "Budget exhausted"
