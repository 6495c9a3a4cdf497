"""The language of a user, for texts that are written outside of the user's requests."""

from __future__ import annotations

from django.conf import settings
from django.utils import translation

from tenants.models import User


def note_language(user: User) -> None:
    """Store the active language as that of a user who reads a page in it."""
    language = translation.get_language() or settings.LANGUAGE_CODE
    if user.language != language:
        user.language = language
        User.objects.filter(pk=user.pk).update(language=language)


def use_language_of(user: User) -> translation.override:
    """Return a context in which texts are in the language of a user, by default that of the installation."""
    return translation.override(user.language or settings.LANGUAGE_CODE)
