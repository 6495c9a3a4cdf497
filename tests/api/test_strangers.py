"""Callers without an account: their denials don't fill the audit, and their guesses are limited."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
import time_machine
from axes.models import AccessAttempt, AccessLog
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import DatabaseError
from django.test import Client, RequestFactory

from allotment.requests import denial_counts, denials
from allotment.requests.denial_counts import ADDRESSES_MAX, OF_USER, Caller, DenialCounts
from allotment.settings import environment
from allotment.supervisor.programs import embedded_plan
from foundation.audit import audit_log
from foundation.core import clock
from foundation.models import AuditRecord
from foundation.web import rate_limit
from foundation.web.addresses import address_of, network_of
from scheduling.tasks import prune_expired
from tenants.models import User
from tests.builders import tenancy
from tests.builders.world import World

PASSWORD: Final = "a long password 1"
ME: Final = "/api/v1/me"


@pytest.fixture
def now() -> Iterator[Any]:
    with time_machine.travel("2026-11-21T12:00:10Z", tick=False) as moment:
        yield moment


def sign_in(client: Client, name: str, password: str = "wrong", address: str = "192.0.2.1") -> int:
    form = {"username": name, "password": password}
    return int(client.post("/login", form, REMOTE_ADDR=address).status_code)


# --- The audit


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("post", "/login", 403), ("post", "/i18n/setlang/", 403), ("get", ME, 401), ("post", "/logout", 403)],
)
def test_what_a_stranger_is_denied_over_and_over_makes_two_records(
    w: World, now: Any, method: str, path: str, status: int
) -> None:
    client = Client(enforce_csrf_checks=True)
    for _ in range(50):
        assert getattr(client, method)(path, REMOTE_ADDR="192.0.2.1").status_code == status
    assert AuditRecord.unscoped.count() == 1
    now.shift(60)
    client.get("/livez", REMOTE_ADDR="198.51.100.9")

    first, rest = AuditRecord.unscoped.order_by("created_at", "pk")
    assert (first.actor_name, first.address, first.after["path"]) == ("anonymous", "192.0.2.1", path)
    assert (rest.actor_name, rest.address, rest.result) == ("anonymous", "192.0.2.1", "denied")
    assert rest.after == {"repeated": 49, "minute": "2026-11-21T12:00:00+00:00"}
    now.shift(60)
    client.get("/livez")
    assert AuditRecord.unscoped.count() == 2, "it is written once"


def test_many_addresses_make_no_more_than_so_many_records(now: Any) -> None:
    denied = DenialCounts()
    callers = [Caller(address=f"198.51.100.{n}") for n in range(250)]
    first = sum(denied.is_recorded(caller, clock.now()) for caller in callers for _ in range(3))
    assert first == ADDRESSES_MAX
    assert denied.take_finished_counts(clock.now()) == []
    now.shift(60)
    due = denied.take_finished_counts(clock.now())
    assert len(due) == ADDRESSES_MAX + 1
    assert sum(repeated.number for repeated in due) + first == 750, "nothing is lost"
    assert denied.take_finished_counts(clock.now()) == []


def test_what_a_user_is_denied_is_written_each_time_up_to_a_number(
    w: World, now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denial_counts, "OF_USER", 3)
    client = Client()
    client.force_login(w.viewer)
    for _ in range(5):
        assert client.get("/api/v1/admin/clusters").status_code == 403
    rows = AuditRecord.unscoped.filter(actor_id=w.viewer.pk, actor_name="vera", result="denied")
    assert rows.count() == 3 < OF_USER
    now.shift(60)
    client.get("/livez")
    assert rows.latest("created_at").after["repeated"] == 2 and rows.count() == 4


def test_a_record_that_cannot_be_written_fails_no_other_request(
    w: World, now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    for _ in range(2):
        client.get(ME)

    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("read-only")

    now.shift(60)
    monkeypatch.setattr(denials.audit_log, "record_denial", fail)
    assert client.get("/livez").status_code == 200
    assert audit_log.record_denial is fail


def test_a_locked_sign_in_makes_no_record_for_each_try(w: World, now: Any, settings: Any) -> None:
    settings.AXES_ENABLED = True
    client = Client()
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in(client, "ed")
    tried = AuditRecord.unscoped.filter(entity="user").count()
    assert tried == settings.AXES_FAILURE_LIMIT
    for _ in range(20):
        assert sign_in(client, "ed") == 429
    assert AuditRecord.unscoped.filter(entity="user").count() == tried
    assert AuditRecord.unscoped.filter(entity="route").count() == 1


def test_the_audit_names_a_request_by_an_id_of_the_platform(w: World) -> None:
    answer = Client().get(ME, headers={"X-Request-ID": "posing-as-another"})
    row = AuditRecord.unscoped.get()
    assert row.request_id == answer["X-Request-ID"] != "posing-as-another"


# --- Limits on pages


@pytest.fixture
def limits(settings: Any, monkeypatch: pytest.MonkeyPatch, now: Any) -> Iterator[None]:
    settings.ALLOTMENT_RATES = {"read": 6, "write": 4, "sign-in": 9, "stranger-read": 5, "stranger-write": 3}
    monkeypatch.setattr(rate_limit, "counter", rate_limit._Counter())
    cache.clear()
    yield
    cache.clear()


def test_strangers_are_limited_on_pages(w: World, limits: None) -> None:
    client = Client(enforce_csrf_checks=True)
    for path in ("/login", "/i18n/setlang/", "/oidc/sso/login/"):
        client.post(path)
    answer = client.post("/login")
    assert (answer.status_code, answer["Retry-After"]) == (429, "50")
    assert [client.get("/login").status_code for _ in range(6)] == [200] * 5 + [429]
    # An invalid session counts as none, and another address is not limited.
    client.cookies["allotment_session"] = "made-up"
    assert client.get("/login").status_code == 429
    assert client.get("/login", REMOTE_ADDR="192.0.2.7").status_code == 200
    for probe in ("/livez", "/readyz", "/metrics"):
        assert client.get(probe).status_code != 429


def test_users_are_limited_on_pages_each_for_themselves(w: World, limits: None) -> None:
    one, other = Client(), Client()
    one.force_login(w.editor)
    other.force_login(w.viewer)
    assert [one.get("/account").status_code for _ in range(7)] == [200] * 6 + [429]
    assert other.get("/account").status_code == 200
    assert one.get(ME).status_code == 200, "the API is counted apart"


# --- Guesses of passwords


@pytest.fixture
def axes(settings: Any) -> None:
    settings.AXES_ENABLED = True
    settings.ALLOTMENT_SIGN_IN_FAILURES = {"user": 12, "address": 10}


def people(number: int) -> list[str]:
    return [tenancy.user(f"person-{n}").username for n in range(number)]


def test_one_address_does_not_try_a_few_passwords_for_all_users(w: World, axes: None, now: Any) -> None:
    client = Client()
    answers = [sign_in(client, name) for name in people(5) for _ in range(3)]
    assert answers == [200] * 10 + [429] * 5
    locked = client.post("/login", {"username": "ed", "password": PASSWORD}, REMOTE_ADDR="192.0.2.1")
    assert (
        locked.status_code == 429 and "sign in from a network that you used before" in locked.content.decode()
    )
    assert sign_in(client, "ed", PASSWORD, "192.0.2.2") == 302
    # Another network of the same provider is counted apart; the same /64 is not.
    now.shift(16 * 60)
    assert sign_in(Client(), "ed", PASSWORD) == 302


def test_ones_own_account_does_not_reset_the_count_of_an_address(w: World, axes: None, now: Any) -> None:
    client = Client()
    for name in people(4):
        for _ in range(2):
            sign_in(client, name)
        sign_in(Client(), "otto", PASSWORD)
    for _ in range(2):
        sign_in(client, "vera")
    assert sign_in(client, "vera") == 429


def test_who_signed_in_from_an_address_before_is_not_held_up_there(w: World, axes: None, now: Any) -> None:
    assert sign_in(Client(), "ed", PASSWORD) == 302
    for name in people(5):
        for _ in range(3):
            sign_in(Client(), name)
    assert sign_in(Client(), "vera", PASSWORD) == 429
    assert sign_in(Client(), "ed", PASSWORD) == 302
    for _ in range(8):
        sign_in(Client(), "ed")
    assert sign_in(Client(), "ed", PASSWORD) == 429, "the pair is locked all the same"
    AccessLog.objects.update(attempt_time=clock.now() - timedelta(days=91))
    AccessAttempt.objects.filter(username="ed").delete()
    assert sign_in(Client(), "ed", PASSWORD) == 429, "known for 90 days"


def test_a_stranger_slows_a_user_down_and_does_not_lock_them_out(w: World, axes: None, now: Any) -> None:
    home = "203.0.113.5"
    assert sign_in(Client(), "root", PASSWORD, home) == 302
    answers = [sign_in(Client(), "root", "wrong", f"192.0.2.{n}") for n in range(20)]
    assert answers == [200] * 12 + [429] * 8, "from however many addresses"
    assert sign_in(Client(), "root", PASSWORD, home) == 302, "from where they work they come in"
    now.shift(61)
    assert sign_in(Client(), "root", "wrong", "192.0.2.99") == 200, "one attempt a minute for all others"
    assert sign_in(Client(), "root", PASSWORD, "192.0.2.98") == 429
    now.shift(61)
    assert sign_in(Client(), "root", PASSWORD, "192.0.2.98") == 302
    assert sign_in(Client(), "ed", PASSWORD, "192.0.2.1") == 302


@pytest.mark.parametrize("typed", ["ed", " ed", "ed ", "ｅｄ"])
def test_ways_to_write_a_name_are_one_name(w: World, axes: None, now: Any, typed: str) -> None:
    for n in range(12):
        sign_in(Client(), typed, "wrong", f"192.0.2.{n}")
    assert sign_in(Client(), "ed", PASSWORD, "192.0.2.77") == 429


def test_an_operator_unlocks_a_user_who_is_slowed_down(w: World, axes: None, now: Any) -> None:
    for n in range(12):
        sign_in(Client(), "ed", "wrong", f"192.0.2.{n}")
    operator = Client()
    operator.force_login(w.platform_admin)
    assert operator.post(f"/api/v1/admin/users/{w.editor.pk}/unlock").status_code == 204
    assert sign_in(Client(), "ed", PASSWORD, "192.0.2.77") == 302


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::1", "2001:db8:1:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::"),
        ("", None),
        ("unix:", None),
    ],
)
def test_an_address_is_counted_by_what_is_handed_out_as_a_whole(address: str, counted: str | None) -> None:
    request = RequestFactory().get("/", REMOTE_ADDR=address)
    assert network_of(request) == counted
    assert address_of(request) == (counted or address)


def test_addresses_of_one_network_are_one_address(w: World, axes: None, now: Any) -> None:
    answers = [sign_in(Client(), "ed", "wrong", f"2001:db8::{n:x}") for n in range(1, 10)]
    assert answers[:7] == [200] * 7 and answers[8] == 429


def test_a_forged_header_is_no_address(w: World, axes: None, now: Any) -> None:
    for n in range(9):
        form = {"username": "ed", "password": "wrong"}
        Client().post("/login", form, headers={"X-Forwarded-For": f"198.51.100.{n}", "X-Real-IP": "9.9.9.9"})
    assert User.objects.get(username="ed") and AccessAttempt.objects.get().ip_address == "127.0.0.1"
    assert {row.address for row in AuditRecord.unscoped.all()} == {"127.0.0.1"}


def test_the_embedded_server_believes_no_header_about_the_client(tmp_path: Any) -> None:
    web = embedded_plan(tmp_path, 8080).services[0]
    assert web.name == "web" and "--no-proxy-headers" in web.command


@pytest.mark.parametrize("value", ["*", "10.0.0.1,*", "0.0.0.0/0", "::/0", "0.0.0.0/1,128.0.0.0/1", "1::/8"])
def test_production_trusts_no_header_from_any_address(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", value)
    with pytest.raises(environment.SettingError, match="FORWARDED_ALLOW_IPS"):
        environment.check_proxies("FORWARDED_ALLOW_IPS")


@pytest.mark.parametrize("value", ["", "127.0.0.1", "10.0.0.0/8, fd00::/16", "10.1.2.3,/run/proxy.sock"])
def test_production_takes_the_word_of_named_proxies(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", value)
    environment.check_proxies("FORWARDED_ALLOW_IPS")


def test_sign_ins_that_no_limit_looks_at_are_forgotten(w: World, axes: None, now: Any) -> None:
    client = Client()
    assert sign_in(client, "ed", PASSWORD) == 302
    sign_in(Client(), "ed", "wrong")
    client.get("/logout")
    kept = (AccessLog.objects.count(), AccessAttempt.objects.count())
    prune_expired()
    assert (AccessLog.objects.count(), AccessAttempt.objects.count()) == kept == (1, 1)

    now.shift(timedelta(days=2))
    prune_expired()
    assert (AccessLog.objects.count(), AccessAttempt.objects.count()) == (1, 0)
    now.shift(timedelta(days=89))
    prune_expired()
    assert (AccessLog.objects.count(), Session.objects.count()) == (0, 0)
