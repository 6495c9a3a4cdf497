"""The result of a policy replay in the REST API is that of its page, whatever the replay ended with."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import translation

from frontend.pages.replays.replay_words import format_error
from scheduling.models import SimulationState
from scheduling.selectors.policies.policy_replay import COLUMNS
from scheduling.services.policy_replay.run import BUDGET_S, MOST_WALL_PER_WORK
from tests.api.conftest import As
from tests.builders import replays
from tests.builders.world import World


@pytest.mark.parametrize("computed", [(), COLUMNS[:2], COLUMNS], ids=len)
@pytest.mark.parametrize("state", SimulationState)
def test_the_api_has_the_figures_that_the_page_shows(
    w: World, as_user: As, client: Client, state: SimulationState, computed: tuple[str, ...]
) -> None:
    made = replays.replay(w.cell, team=str(w.workspace.pk))
    made.result = {key: value for key, value in made.result.items() if key not in {*COLUMNS} - {*computed}}
    made.state = state
    made.save()
    client.force_login(w.platform_admin)
    page = client.get(f"/ops/replays/{made.pk}").content.decode()

    answer = as_user(w.platform_admin).get(f"/api/v1/admin/policy-replays/{made.pk}")

    result = answer.json()["result"]
    assert (result is not None) == ('data-chart="replay-allocation"' in page)
    assert (result is not None) == (
        state in (SimulationState.DONE, SimulationState.FAILED) and bool(computed)
    )
    if result is not None:
        (team,) = result["teams"]
        for column in COLUMNS:
            assert (result[column] is not None) == (team[column] is not None) == (column in computed)


def test_the_limit_that_a_replay_reached_is_stated_as_computed() -> None:
    with translation.override("en"):
        stated = format_error("TOO_LONG")
    limits = f"{BUDGET_S / 60:.0f} minutes of CPU time or {BUDGET_S * MOST_WALL_PER_WORK / 60:.0f} minutes"
    assert limits in stated
