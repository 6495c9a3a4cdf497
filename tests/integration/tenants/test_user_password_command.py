"""`allotment user password` sets a lost password, the first admin's included."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.test import Client

from foundation.core import clock
from foundation.models import AuditRecord
from tenants.services.access_key import access_key_check
from tests.builders import tenancy
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("user", *words, stdout=out)
    return out.getvalue()


def sign_in(name: str, password: str) -> Any:
    client = Client()
    return client.post("/login", {"username": name, "password": password}).status_code, client


@pytest.mark.parametrize("name", ["root", "ed"])
def test_a_lost_password_is_set_from_the_shell(w: World, name: str) -> None:
    token = tenancy.access_key(w.platform_admin if name == "root" else w.editor)
    text = run("password", name)
    password = text.split("one-time password: ")[1].split(" ")[0]

    assert "access keys revoked: 1" in text and access_key_check(token) is None
    status, client = sign_in(name, password)
    assert status == 302 and client.get("/")["Location"] == "/account"
    fresh = {"old": password, "new": "quite another 22", "again": "quite another 22"}
    assert client.post("/account", fresh).status_code == 302
    assert sign_in(name, "quite another 22")[0] == 302
    assert AuditRecord.unscoped.filter(action="user.password-set").count() == 1


def test_an_expired_password_is_set_anew(w: World, tmp_path: Path) -> None:
    run("password", "root")
    with time_machine.travel(clock.now() + timedelta(days=4)):
        file = tmp_path / "result.json"
        run("password", "root", "--json", str(file), "--keep-keys")
        told = json.loads(file.read_text())
        assert sign_in("root", told["password"])[0] == 302
    assert (told["keys_revoked"], told["keys_kept"]) == (0, 0)
    assert file.stat().st_mode & 0o077 == 0


def test_the_password_of_a_file_is_not_printed(w: World, tmp_path: Path) -> None:
    chosen = tmp_path / "password"
    chosen.write_text("chosen elsewhere 7\n")
    text = run("password", "ed", "--password-file", str(chosen))
    assert "chosen elsewhere" not in text and "must be changed by" in text
    assert sign_in("ed", "chosen elsewhere 7")[0] == 302


def test_a_name_or_password_that_is_none_is_refused(w: World, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not found"):
        run("password", "nobody-here")
    weak = tmp_path / "password"
    weak.write_text("short")
    with pytest.raises(CommandError, match="short"):
        run("password", "ed", "--password-file", str(weak))
    with pytest.raises(CommandError, match=r"doesn't have permission member\.edit"):
        run("password", "root", "--user", tenancy.user("helen", None, tenancy.Role.AUDITOR).username)


def test_the_expiry_of_a_new_accounts_password_is_printed(w: World) -> None:
    with time_machine.travel("2026-01-01T10:00:00Z", tick=False):
        assert "(until 2026-01-04T10:00+00:00)" in run("add", "new")
