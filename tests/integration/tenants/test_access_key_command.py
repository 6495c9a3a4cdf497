"""A token from the shell opens the API; an unknown user costs one line."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from tests.builders.world import world

pytestmark = pytest.mark.django_db


def test_the_token_opens_the_api(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    here = world()
    call_command("access_key", "create", "--user", here.editor.username)
    token = capsys.readouterr().out.strip()

    answer = client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 200
    assert answer.json()["username"] == here.editor.username


def test_an_unknown_user_costs_one_line() -> None:
    with pytest.raises(CommandError, match="user 'nobody' not found") as caught:
        call_command("access_key", "create", "--user", "nobody")
    assert caught.value.returncode == 2
