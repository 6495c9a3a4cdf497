"""Sending a form of a page as a browser would: with all that is hidden in it."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

_FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"')


def hidden(client: Client, path: str, **known: Any) -> dict[str, str]:
    """What is hidden in the first form of a page that hides `known`; nothing where no form does."""
    page = client.get(path).content.decode()
    for form in _FORM.findall(page):
        found = dict(_HIDDEN.findall(form))
        if known and all(found.get(name) == str(value) for name, value in known.items()):
            found.pop("csrfmiddlewaretoken", None)
            return found
    return {}


def post(client: Client, path: str, **form: Any) -> str:
    """Send a form, with the version that its page shows; the page that it leads to."""
    known = {name: form[name] for name in ("do", "member", "role", "request") if name in form}
    if form.get("do") == "change":
        known.pop("role", None)  # there it is what is chosen
    version = {k: v for k, v in hidden(client, path, **known).items() if k == "version"}
    return client.post(path, {**version, **form}, follow=True).content.decode()
