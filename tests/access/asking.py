"""Sends one request of the table as one actor, and lists what is wrong with the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from django.conf import settings
from django.db import transaction
from django.test import Client

from tests.access.actors import INSIDE, VIEW, Actor
from tests.access.again import look, lose, run_command, streams
from tests.access.oracle import NO_ACCOUNT, Verdict, met, verdict
from tests.access.table import Ask
from tests.access.world import ARRANGED, AccessWorld, Side, SignedIn
from tests.access.writes import written

HARMLESS: Final = frozenset({"foundation_auditrecord", "django_session", "axes_accessattempt"})
"""Tables that any request may write: the audit of refusals, and the last workspace of a session."""
_RECORDS: Final = frozenset({"foundation_auditrecord"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the tables that the request changed; `asked` is the text of the request itself."""

    status: int
    code: str
    text: str
    tables: frozenset[str]
    headers: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Return `value` with each `{name}` in its texts replaced."""
    if isinstance(value, str):
        known = re.sub(r"~(\w+)~", lambda match: names[match[1]], value)
        return re.sub(r"\{([\w.]+)\}", lambda match: names[match[1]], known)
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return [filled(item, names) for item in value] if isinstance(value, list) else value


@contextmanager
def undone() -> Iterator[None]:
    """Roll back every change that is made within the block."""
    with transaction.atomic():
        try:
            yield
        finally:
            transaction.set_rollback(True)


def send(
    w: AccessWorld,
    who: Actor,
    ask: Ask,
    *,
    mixed: bool = False,
    query: str = "",
    ready: Callable[[], object] = bool,
    **headers: str,
) -> Answer:
    """Send a request once `ready` was called; send it again after a loss, where the row has one."""
    signed = w.actors[who.name]
    names = w.names(mixed=mixed) | dict(ask.values)
    names["me"] = signed.user.username if signed.user else ""
    if ask.arrange and signed.user is not None:
        ARRANGED[ask.arrange](w, names, signed.user)
    ready()
    if ask.is_command:
        return _commanded(ask, names)
    if ask.lost and ask.method == "POST":
        headers = {"Idempotency-Key": "again", **headers}
    request = partial(_request, signed, ask, names, query, headers)
    with streams() as begun:
        first = request()
    if not ask.lost or first.status != ask.ok or signed.user is None:
        return first
    lose(w, signed.user, ask.lost)
    if not begun:
        return request()
    with written() as log:
        status, code, text = look(begun[0])
    return Answer(status, code, text, frozenset(log.tables), asked=first.asked)


def _commanded(ask: Ask, names: Mapping[str, str]) -> Answer:
    words = filled(ask.route, names)
    with written() as log:
        status, code, text = run_command(words, names["me"] or "nobody")
    return Answer(status, code, text, frozenset(log.tables), asked=words)


def _request(
    signed: SignedIn, ask: Ask, names: Mapping[str, str], query: str, headers: Mapping[str, str]
) -> Answer:
    client = Client(raise_request_exception=False)
    path = "/" + filled(ask.route, names) + _joined(filled(ask.query, names), query)
    given: dict[str, Any] = {"headers": {"If-Match": "*", **headers}} if ask.is_api else {"headers": headers}
    if not ask.by_session and signed.token:
        given["headers"]["Authorization"] = f"Bearer {signed.token}"
    elif signed.session:
        client.cookies[settings.SESSION_COOKIE_NAME] = signed.session
    body = _whole(filled(ask.body, names))
    given |= _body(ask, body)
    with written() as log:
        answer = client.generic(ask.method, path, **given)
        text = _text(answer)
    status, code = _status_of(answer, ask)
    return Answer(
        status, code or _code(text), text, frozenset(log.tables), dict(answer.items()), f"{path} {body}"
    )


def _status_of(answer: Any, ask: Ask) -> tuple[int, str]:
    """Return the status; a page's redirect to sign-in or to the change of a password counts as a refusal."""
    place = answer.headers.get("Location", "")
    if ask.is_api or answer.status_code != 302:
        return answer.status_code, ""
    if place.startswith("/login?"):
        return 401, ""
    return (403, "PASSWORD_CHANGE_REQUIRED") if place == "/account" else (302, "")


def _joined(query: str, more: str) -> str:
    if not more:
        return query
    return f"{query}&{more}" if query else f"?{more}"


def _whole(body: Any) -> Any:
    """Return a form with all boxes that its page shows, where `**` names them."""
    if isinstance(body, dict) and "**" in body:
        return {
            **dict(parse_qsl(body["**"])),
            **{name: value for name, value in body.items() if name != "**"},
        }
    return body


def _body(ask: Ask, body: Any) -> dict[str, Any]:
    if ask.method in ("GET", "HEAD", "OPTIONS", "DELETE") or body is None:
        return {}
    if not ask.is_api:
        pairs = [
            (key, item)
            for key, value in body.items()
            for item in (value if isinstance(value, list) else [value])
        ]
        form = urlencode(pairs)
        return {"data": form, "content_type": "application/x-www-form-urlencoded"}
    return {"data": body if isinstance(body, str) else json.dumps(body), "content_type": ask.media}


def _text(answer: Any) -> str:
    if not answer.streaming:
        return str(answer.content, "utf-8", "replace")
    if answer.is_async:
        # Not `close`: it says that a request is over, and the connection of the whole test would be closed.
        for closer in answer._resource_closers:
            closer()
        return ""
    return b"".join(answer.streaming_content).decode()


def _code(text: str) -> str:
    found = re.match(r'\{.*?"code": ?"(\w+)"', text, re.DOTALL)
    return found[1] if found else ""


# What is wrong with it


def faults(w: AccessWorld, who: Actor, ask: Ask, *, mixed: bool = False) -> list[str]:
    """Send the request once and return everything that is wrong with the answer."""
    with undone():
        answer = send(w, who, ask, mixed=mixed)
    if mixed:
        told = _mixed_faults(ask, answer)
        return [
            f"{who.name}: {ask} of another workspace: {fault}"
            for fault in (*told, *_leaks(w, who, ask, answer))
        ]
    return [f"{who.name}: {ask}: {fault}" for fault in answer_faults(w, who, ask, answer, verdict(who, ask))]


def _mixed_faults(ask: Ask, answer: Answer) -> Iterator[str]:
    """Yield the faults of an answer that should refuse, by a status or a sentence, what doesn't exist."""
    if answer.status not in (400, 403, 404) and not ask.quiet:
        yield f"{answer.status}: {answer.text[:200]}"
    if changed := answer.tables - HARMLESS:
        yield f"{sorted(changed)} changed"


def answer_faults(w: AccessWorld, who: Actor, ask: Ask, answer: Answer, wanted: Verdict) -> list[str]:
    """Return everything that is wrong with an answer."""
    found = list(_status_faults(ask, answer, wanted))
    changed = answer.tables - HARMLESS
    if not wanted.granted and changed:
        found.append(f"refused, and yet {sorted(changed)} changed")
    if wanted.granted and ask.writes and ask.writes not in changed:
        found.append(f"{answer.status}: nothing changed in {ask.writes}: {answer.text[:200]}")
    found += _leaks(w, who, ask, answer)
    if wanted.granted and answer.status == 200:
        found += _listing(w, who, ask, answer)
    if wanted.granted and answer.status in (200, 302):
        found += _pieces(w, who, ask, answer)
    found += _unrecorded(who, ask, answer)
    return found


def _unrecorded(who: Actor, ask: Ask, answer: Answer) -> Iterator[str]:
    """Yield a fault if a refusal, or a request for a tenant that the actor may not see, was not audited."""
    if ask.is_command or ask.lost or ask.method == "OPTIONS" or "Location" in answer.headers:
        return
    named = any(f"{{{name}}}" in ask.route for name in ("ws", "workspace", "tenant"))
    hidden = named and who.state not in NO_ACCOUNT and not who.has(VIEW, "here")
    if (answer.status in (401, 403) or (answer.status == 404 and hidden)) and not answer.tables & _RECORDS:
        yield f"{answer.status}, and there is no record of it"


def _status_faults(ask: Ask, answer: Answer, wanted: Verdict) -> Iterator[str]:
    status = wanted.status
    if ask.quiet and status in (403, 404) and answer.status in (ask.ok, 400):
        return  # the refusal is a sentence of the answer
    if ask.ok == 0 and status == 0 and answer.status in (200, 302):
        return
    if answer.status != status:
        yield f"{answer.status} in place of {status}: {answer.code} {answer.text[:300]}"
    elif wanted.code and answer.code != wanted.code:
        yield f"{answer.code} in place of {wanted.code}"


def _leaks(w: AccessWorld, who: Actor, ask: Ask, answer: Answer) -> Iterator[str]:
    if ask.open:
        return
    for side in (w.here, w.other):
        for secret, rights in side.secrets.items():
            if (
                secret in answer.text
                and secret not in answer.asked
                and not any(_holds(w, who, right, side) for right in rights)
            ):
                yield f"tells {secret}"


def _holds(w: AccessWorld, who: Actor, right: tuple[str, str], side: Side) -> bool:
    """Return whether an actor has a right, given for the places of `here`, at the workspace of a side."""
    point, place = right
    moved = {"here": "other", "above": "elsewhere"} if side is w.other else {}
    place = moved.get(place, place)
    # The list of the own roles names a place to every actor with a role there.
    return who.has(point, place) if point else any(at in INSIDE[place] for at, _role in who.grants)


def _listing(w: AccessWorld, who: Actor, ask: Ask, answer: Answer) -> Iterator[str]:
    if not ask.lists:
        return
    own = any(name in ask.route + ask.query for name in ("{ws}", "{workspace}", "{tenant}"))
    for side in (w.here,) if own else (w.here, w.other):
        as_here = who if side is w.here else turned(who)
        wanted = not met(as_here, ask.listed)
        if (side.names[ask.lists] in answer.text) != wanted:
            yield f"{'lacks' if wanted else 'shows'} the {ask.lists} of {side.tenant.slug}"


def _pieces(w: AccessWorld, who: Actor, ask: Ask, answer: Answer) -> Iterator[str]:
    text = answer.text + answer.headers.get("Location", "")
    for piece, wanted in ask.shows:
        if (filled(piece, w.names()) in text) == bool(met(who, wanted)):
            yield f"{'shows' if met(who, wanted) else 'lacks'} {piece}"


_TURNED: Final = {
    "here": "other",
    "other": "here",
    "above": "elsewhere",
    "elsewhere": "above",
    "beside": "nowhere",
}


def turned(who: Actor) -> Actor:
    """Return the actor as seen from the other workspace."""
    grants = tuple((_TURNED.get(place, place), role) for place, role in who.grants)
    return Actor(who.name, grants, who.state, who.scopes, who.service, who.group)


def may_ask(who: Actor, ask: Ask) -> bool:
    """Return whether the actor can send the request at all: a session has neither key nor program account."""
    if ask.is_command:
        return not who.scopes and who.state in ("", "nobody", "closed")
    return not ask.by_session or not (who.scopes or who.service or who.state in ("expired", "revoked"))
