"""Reading a page, and sending a form of it as a browser would: with all that is hidden in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from django.test import Client

_FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"')


def page(client: Client, address: str, status: int = 200) -> str:
    """A page that is answered with this status."""
    answer = client.get(address)
    assert answer.status_code == status, answer.content.decode()[-2000:]
    return answer.content.decode()


def hidden(client: Client, path: str, **known: Any) -> dict[str, str]:
    """Return the hidden fields of the first form that has `known` among them; empty without one."""
    for form in _FORM.findall(client.get(path).content.decode()):
        found = dict(_HIDDEN.findall(form))
        if known and all(found.get(name) == str(value) for name, value in known.items()):
            found.pop("csrfmiddlewaretoken", None)
            return found
    return {}


def post(client: Client, path: str, **form: Any) -> str:
    """Send a form, with the version that its page shows; the page that it leads to.

    The form of a `row` of a list is opened first.
    """
    known = {name: form[name] for name in ("do", "member", "role", "request") if name in form}
    at = path
    if "row" in form:
        known, at = {"row": form["row"]}, f"{path}?edit={form['row']}"
    version = {k: v for k, v in hidden(client, at, **known).items() if k == "version"}
    return client.post(path, {**version, **form}, follow=True).content.decode()


class _Forms(HTMLParser):
    """The fields of the forms of a page as a browser would send them, by the id of the form."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self.addresses: dict[str, str] = {}
        self._form = self._select = self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        form, name = self.forms.setdefault(given.get("form", self._form), {}), given.get("name", "")
        match tag:
            case "form":
                self._form = given.get("id", "")
                self.addresses[self._form] = given.get("action", "")
            case "input" if name and given.get("type") in ("checkbox", "radio"):
                form |= {name: given.get("value", "on")} if "checked" in given else {}
            case "input" if name:
                form[name] = given.get("value", "")
            case "select":
                self._select = name
            case "option" if self._select and ("selected" in given or self._select not in form):
                form[self._select] = given.get("value", "")
            case "textarea":
                self._text = name
                form[name] = ""

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "form":
                self._form = ""
            case "select":
                self._select = ""
            case "textarea":
                # A newline right behind the tag belongs to the tag.
                form = self.forms[self._form]
                form[self._text] = form[self._text].removeprefix("\n")
                self._text = ""

    def handle_data(self, data: str) -> None:
        if self._text:
            self.forms[self._form][self._text] += data


def ask_batch(client: Client, path: str, do: str, *rows: object) -> str:
    """Ask a list for an action on rows and confirm it; the page that it leads to."""
    form = {"do": do, "item": [str(row) for row in rows], "confirmed": "1"}
    return client.post(path, form, follow=True).content.decode()


def fields_of(page: str, form: str) -> dict[str, str]:
    """Return what a browser would send of the form with this id, as the page shows it."""
    return _read(page).forms[form]


def address_of(page: str, form: str) -> str:
    """Return the address to which a browser would send the form with this id."""
    return _read(page).addresses[form]


def _read(page: str) -> _Forms:
    parser = _Forms()
    parser.feed(page)
    return parser
