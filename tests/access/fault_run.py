"""Takes every permission check away in turn and demands that the matrix notices; see `test_faults`.

Run by itself, in a process whose platform is imported through `planting`. A check whose
removal goes unnoticed may repeat an earlier check, as a service repeats that of its view: then it must change
some answer when it is the only one that is left.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from django.urls import get_resolver

from foundation.sql.prepared import PreparedQuery
from tenants.api.requests.key_scopes import KeyScopes
from tests.access import planting
from tests.access.actors import ACTORS, Actor
from tests.access.asking import faults
from tests.access.covering import TABLE, is_mixed, who_asks
from tests.access.faults_known import ARGUED, BEHIND, SAMPLE
from tests.access.oracle import verdict
from tests.access.table import Ask
from tests.access.world import AccessWorld

pytestmark = pytest.mark.django_db
Question = tuple[Actor, Ask, bool]
ALL: Final = os.environ.get("ALLOTMENT_FAULTS") == "all"
LEAST: Final = 0.95
MOST: Final = 60
"""The most requests of each kind for one fault: every request runs the checks of the page frame."""
_ASKED_ALONE: Final = 12


def _questions() -> list[Question]:
    asked = [(who, ask, False) for ask in TABLE for who in who_asks(ask)]
    mixed = [
        (ACTORS[name], ask, True) for ask in TABLE if is_mixed(ask) for name in ("platform-admin", "admin")
    ]
    return asked + mixed


class FaultRun:
    """The requests that run each check, and what the matrix reports without the check."""

    def __init__(self, w: AccessWorld) -> None:
        self._w, self._asked = w, _questions()
        self._met: list[frozenset[str]] = []
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number in range(len(self._asked)):
            planting.met()
            found_faults = self._faults_of(number)
            assert not found_faults, f"wrong without any fault: {found_faults}"
            self._met.append(planting.met())
            for site in self._met[-1]:
                found[site].append(number)
        self.by_site = {site: self._fewer(numbers) for site, numbers in found.items()}

    def _faults_of(self, number: int) -> list[str]:
        who, ask, mixed = self._asked[number]
        return faults(self._w, who, ask, mixed=mixed)

    def _fewer(self, numbers: Sequence[int]) -> list[int]:
        """Return one request of each state, `MOST` refused, `MOST` granted, and all that list pieces."""
        refused = [number for number in numbers if self._is_refused(number)]
        granted = [number for number in numbers if not self._is_refused(number)]
        found = [n for part in (refused, granted) for n in part[:: max(1, -(-len(part) // MOST))]]
        pages = [number for number in granted if self._asked[number][1].shows]
        return list(dict.fromkeys([*self._one_of_each_state(refused), *found, *pages]))

    def _one_of_each_state(self, numbers: Sequence[int]) -> list[int]:
        """Return one request for each state of account that is not in order, by a key and by a session."""
        asked = [(number, *self._asked[number][:2]) for number in reversed(numbers)]
        return list({(who.state, ask.by_session): number for number, who, ask in asked}.values())

    def _is_refused(self, number: int) -> bool:
        who, ask, mixed = self._asked[number]
        return mixed or not verdict(who, ask).granted

    def complaint(self, site: str) -> str:
        """Return what the matrix reports without one check; empty if it reports nothing."""
        with planting.without(site):
            return next(
                (
                    found_faults[0]
                    for number in self.by_site[site]
                    if (found_faults := self._faults_of(number))
                ),
                "",
            )

    def holds_alone(self, site: str) -> bool:
        """Return whether some answer changes by this check when every other check is removed."""
        for number in self._shielded(site):
            with planting.without_any_but(""):
                nothing = self._outcome(number)
            with planting.without_any_but(site):
                if self._outcome(number) != nothing:
                    return True
        return False

    def holds_behind(self, site: str, guards: Sequence[str]) -> bool:
        """Return whether some answer changes by this check when those that run before it are removed."""
        asked = {number for each in (site, *guards) for number in self.by_site.get(each, ())}
        for number in sorted(asked):
            with planting.without(*guards):
                held = self._outcome(number)
            with planting.without(site, *guards):
                if self._outcome(number) != held:
                    return True
        return False

    def _shielded(self, site: str) -> list[int]:
        """Return some refused requests of the rows that run a check; most are refused before it."""
        rows = {id(self._asked[number][1]) for number in self.by_site[site]}
        found = [n for n, asked in enumerate(self._asked) if id(asked[1]) in rows and self._is_refused(n)]
        known = [n for n in found if self._asked[n][0].state == ""]
        keys = [n for n in known if self._asked[n][0].scopes]
        others = [n for n in known if not self._asked[n][0].scopes]
        return [n for part in (keys, others) for n in part[:: max(1, -(-len(part) // _ASKED_ALONE))]]

    def _outcome(self, number: int) -> list[str]:
        return [found_faults.split(": ")[2] for found_faults in self._faults_of(number)]


def test_the_sample_of_faults_is_noticed(w: AccessWorld) -> None:
    planting.plant_scopes(KeyScopes)
    unseen = []
    assert get_resolver().url_patterns, "this imports every view"
    for site, row in SAMPLE.items():
        assert site in planting.SITES, f"there is no such check any more: {site}"
        rows = [ask for ask in TABLE if str(ask) == row]
        assert rows, f"there is no such row any more: {row}"
        with planting.without(site):
            mixed = [faults(w, ACTORS["platform-admin"], ask, mixed=True) for ask in rows if is_mixed(ask)]
            if not any(mixed) and not any(faults(w, who, ask) for ask in rows for who in who_asks(ask)):
                unseen.append(f"{site} by {row}")
    assert not unseen, "\n".join(unseen)


@pytest.mark.skipif(not ALL, reason="ALLOTMENT_FAULTS=all takes every check away: about twenty minutes")
def test_every_check_that_is_taken_away_is_noticed(w: AccessWorld) -> None:
    planting.plant_scopes(KeyScopes)
    planting.plant_kept(PreparedQuery)
    began = time.monotonic()
    run = FaultRun(w)
    alone: dict[str, str] = {}
    behind: list[str] = []
    unseen = []
    for site in sorted(planting.SITES):
        if site in BEHIND:
            noticed = run.holds_behind(site, BEHIND[site])
        elif site not in run.by_site:
            noticed = False
        elif found_faults := run.complaint(site):
            alone[site] = found_faults
            continue
        else:
            noticed = run.holds_alone(site)
        (behind if noticed else unseen).append(site)
        if not noticed:
            print(f"not noticed: {site}", flush=True)
    share = (len(alone) + len(behind)) / len(planting.SITES)
    report = {
        "checks": len(planting.SITES), "met": len(run.by_site),
        "alone": alone, "behind": behind, "unseen": unseen,
        "never met": sorted(planting.SITES - set(run.by_site)), "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    Path(os.environ.get("ALLOTMENT_FAULTS_REPORT", os.devnull)).write_text(json.dumps(report, indent=1))
    print(
        f"{share:.1%} of {len(planting.SITES)} faults noticed, {len(behind)} of them behind another",
        flush=True,
    )
    assert set(unseen) <= set(ARGUED), sorted(set(unseen) - set(ARGUED))
    assert set(ARGUED) <= set(unseen), f"these are noticed: {sorted(set(ARGUED) - set(unseen))}"
    assert share >= LEAST
