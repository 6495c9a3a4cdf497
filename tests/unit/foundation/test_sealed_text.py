"""Secrets are stored encrypted and survive a change of the key."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.core.sealed_text import CannotOpen, open_text, seal_text

SECRET = "https://example.org/robot?key=密"


def test_a_sealed_text_does_not_contain_the_secret_and_opens_again() -> None:
    sealed = seal_text(SECRET)
    assert "example" not in sealed
    assert sealed != seal_text(SECRET)
    assert open_text(sealed) == SECRET


def test_an_empty_text_stays_empty() -> None:
    assert seal_text("") == open_text("") == ""


def test_a_text_opens_after_a_change_of_the_key(settings: Any) -> None:
    sealed, old = seal_text(SECRET), settings.SECRET_KEY
    settings.SECRET_KEY = "another key, long enough for everybody to be content with it"
    with pytest.raises(CannotOpen):
        open_text(sealed)
    settings.SECRET_KEY_FALLBACKS = [old]
    assert open_text(sealed) == SECRET


@pytest.mark.parametrize("wrong", ["no token", "密", "gAAAAABk"])
def test_a_text_that_was_not_sealed_here_is_refused(wrong: str) -> None:
    with pytest.raises(CannotOpen):
        open_text(wrong)
