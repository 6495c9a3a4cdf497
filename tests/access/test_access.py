"""Every route is requested by every actor, for existing things: answer, body and tables are compared.

The expected answer comes from `table` and `oracle`, which use none of the platform's permission code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.db import connection
from django.urls import URLPattern, URLResolver, get_resolver

from tenants.models import Member
from tests.access import tables
from tests.access.actors import ACTORS
from tests.access.asking import Answer, answer_faults, faults, send, undone
from tests.access.covering import API, FULL, ROUTE, TABLE, is_mixed, who_asks, who_asks_again
from tests.access.oracle import Verdict, verdict
from tests.access.table import Ask
from tests.access.world import AccessWorld

pytestmark = pytest.mark.django_db
PARTS: Final = 16
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOT_ASKED: Final = {
    "readyz": "tells nothing of tenants; it has tests of its own",
    "readyz/platform": "tells nothing of tenants; it has tests of its own",
    "api/v1/agent/samples": "agents of nodes alone, by keys of their own; it has tests of its own",
    "api/v1/agent/keys": "agents of nodes alone, by tokens of their cluster; it has tests of its own",
    "metrics": "tells nothing of tenants; it has tests of its own",
    "i18n/setlang/": "Django's own, and the language of the account that asks",
    "logout": "Django's own",
    "oidc/{provider_id}/login/": "allauth's own",
    "oidc/{provider_id}/login/callback/": "allauth's own",
}
"""Addresses without a row, each with the reason."""
_WRITES: Final = tuple(ask for ask in API if ask.method != "GET")
_HALVES: Final = {"admin": 0, "editor": 1}
"""The half of the changes that an actor tries as a dry run, the same in every process."""
_POSTS: Final = tuple(
    ask for ask in API if ask.method == "POST" and ask.writes and not (ask.quiet or ask.session)
)


def routes() -> list[str]:
    """Return every address below the root, its parameters in braces."""
    return sorted(set(_walk(get_resolver(), "")))


def _walk(resolver: URLResolver, prefix: str) -> Iterator[str]:
    for pattern in resolver.url_patterns:
        text = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", str(pattern.pattern)).removeprefix("^")
        path = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", text)
        if isinstance(pattern, URLPattern):
            yield path
        else:
            yield from _walk(pattern, path)


def shape(route: str) -> str:
    """Return a route without the names of its parameters, which a row names differently."""
    return re.sub(r"\{[\w.]+\}", "{}", route)


def test_the_table_has_a_row_for_every_address() -> None:
    known = {shape(ask.route) for ask in TABLE if not ask.is_command} | {shape(route) for route in NOT_ASKED}
    assert {shape(route) for route in routes()} - known == set(), "add rows for these"
    assert known - {shape(route) for route in routes()} == set(), "these addresses are gone"


def test_no_address_of_the_api_takes_a_method_without_a_row(w: AccessWorld) -> None:
    rows = {(shape(ask.route), ask.method) for ask in API}
    taken = []
    for ask in {shape(ask.route): ask for ask in API if ask.need is not None}.values():
        for method in METHODS:
            if (shape(ask.route), method) not in rows:
                probe = Ask(
                    route=ask.route, method=method, need=(), body={}, arrange=ask.arrange, query=ask.query
                )
                with undone():
                    answer = send(w, ACTORS["platform-admin"], probe)
                if answer.status != 405:
                    taken.append(f"{probe}: {answer.status}")
    assert not taken


@pytest.mark.parametrize("part", range(PARTS))
def test_every_actor_gets_what_is_theirs_and_nothing_else(w: AccessWorld, part: int) -> None:
    rows = [ask for ask in TABLE if ROUTE in ask.route]
    assert rows, f"no row has {ROUTE} in its address"
    asks = who_asks_again if connection.vendor == "postgresql" else who_asks
    found = [fault for ask in rows[part::PARTS] for who in asks(ask) for fault in faults(w, who, ask)]
    assert not found, "\n".join(found)


def test_a_thing_of_another_workspace_is_not_there_below_ones_own(w: AccessWorld) -> None:
    asked = [(ACTORS[name], ask) for ask in TABLE if is_mixed(ask) for name in ("platform-admin", "admin")]
    found = [fault for who, ask in asked for fault in faults(w, who, ask, mixed=True)]
    assert not found, "\n".join(found)


def _try_dry_runs(w: AccessWorld, who: str, ask: Ask) -> list[str]:
    """Return the faults of dry runs, which must answer the same and leave every table unchanged."""
    actor = ACTORS[who]
    wanted = verdict(actor, ask)
    before: dict[str, list[Any]] = {}

    def ready() -> None:
        if FULL or (wanted.granted and API.index(ask) % 3 == 0):
            before.update(tables.contents())

    with undone():
        answer = send(w, actor, ask, query="dry_run=true", ready=ready)
        found = [f for f in answer_faults(w, actor, ask, answer, wanted) if "nothing changed" not in f]
        changed = answer.tables - tables.OF_REFUSALS
        if changed or (before and tables.contents() != before):
            found.append(f"a dry run changed {sorted(changed)}")
        if wanted.granted and ask.ok < 300 and answer.headers.get("Dry-Run") != "true":
            found.append("no Dry-Run in the answer")
    return [f"{who}: {ask}: {fault}" for fault in found]


@pytest.mark.parametrize("who", ["platform-admin", *_HALVES])
def test_a_dry_run_answers_the_same_and_changes_nothing(w: AccessWorld, who: str) -> None:
    rows = _WRITES if who == "platform-admin" or FULL else _WRITES[_HALVES[who] :: 2]
    found = [fault for ask in rows if ask.has_dry_run for fault in _try_dry_runs(w, who, ask)]
    assert not found, "\n".join(found)


def _twice(w: AccessWorld, ask: Ask) -> list[str]:
    """Return the faults of a POST sent with a key, repeated, and repeated again after the right is lost."""
    actor = ACTORS["platform-admin"]
    with undone():
        first = send(w, actor, ask, **{"Idempotency-Key": "k"})
        if ask.arrange:
            return []  # it would be arranged anew
        again = send(w, actor, ask, **{"Idempotency-Key": "k"})
        user = w.actors[actor.name].user
        Member.unscoped.filter(user=user).delete()
        after = send(w, actor, ask, **{"Idempotency-Key": "k"})
    found = []
    if (
        first.status != ask.ok
        or again.status != ask.ok
        or again.headers.get("Idempotency-Replayed") != "true"
    ):
        found.append(f"{first.status}, then {again.status} {again.text[:200]}")
    if again.tables - tables.OF_REFUSALS - {"foundation_idempotencykey"}:
        found.append(f"the repetition changed {sorted(again.tables)}")
    if ask.need and not _refused(after):
        found.append(f"{after.status} after the right was gone")
    return [f"{ask}: {fault}" for fault in found]


def _refused(answer: Answer) -> bool:
    return answer.status in (400, 403, 404) and not answer.tables - tables.OF_REFUSALS


def test_a_repeated_post_is_answered_once_and_not_after_the_right_is_gone(w: AccessWorld) -> None:
    found = [fault for ask in _POSTS for fault in _twice(w, ask)]
    assert not found, "\n".join(found)


def test_a_refused_post_leaves_its_key_free(w: AccessWorld) -> None:
    found = []
    for ask in _POSTS:
        with undone():
            answer = send(w, ACTORS["stranger"], ask, **{"Idempotency-Key": "k"})
            if not verdict(ACTORS["stranger"], ask).granted and not _refused(answer):
                found.append(f"{ask}: {answer.status}, {sorted(answer.tables)}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_a_head_or_options_request_tells_no_more_than_a_get(w: AccessWorld, method: str) -> None:
    found = []
    for ask in [ask for ask in TABLE if ask.method == "GET" and not ask.lost]:
        for name in ("nobody", "stranger", "admin") if FULL else ("stranger",):
            who = ACTORS[name]
            probe = Ask(
                route=ask.route,
                method=method,
                need=ask.need,
                query=ask.query,
                values=ask.values,
                open=ask.open,
            )
            with undone():
                answer = send(w, who, probe)
            wanted = verdict(who, ask)
            told = answer_faults(
                w, who, probe, answer, Verdict(answer.status if method == "OPTIONS" else wanted.status, "")
            )
            if (ask.ok or not wanted.granted) and answer.status != 405:
                found += [f"{name}: {probe}: {fault}" for fault in told if "nothing changed" not in fault]
            if method == "HEAD" and answer.text:
                found.append(f"{name}: {probe}: a body")
    assert not found, "\n".join(found)


def test_what_a_refused_request_leaves_is_only_the_record_of_it(w: AccessWorld) -> None:
    """Check that the log of statements, which the other tests use, agrees with the contents of all tables."""
    refused = [ask for ask in _WRITES if not verdict(ACTORS["stranger"], ask).granted]
    rows = [ask for ask in refused if not ask.arrange]
    with undone():
        before = tables.contents()
        for ask in rows if FULL else rows[::7]:
            send(w, ACTORS["stranger"], ask)
        assert tables.contents() == before
    assert connection.in_atomic_block
