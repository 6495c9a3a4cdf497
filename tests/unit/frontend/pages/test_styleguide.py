"""The style guide shows every component: each template, and each class of the components' style sheets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from django.test import Client

import frontend
from tests.builders.world import World, world

ADDRESSES = ("/styleguide", "/styleguide?show=02&edit=02&filterBy=name=@train")
ROOT = Path(frontend.__file__).parent
TEMPLATES = ROOT / "templates/frontend"
SHEETS = ("components", "data", "forms", "lists", "charts", "layout")
ELSEWHERE = {
    # Classes that scripts or plotly add, and parts of pages that have no frame or no samples.
    "htmx-request": "added while a button's request is under way",
    "stale": "added by live.js when the server does not answer",
    "paused": "added by lists.js while refreshing is off",
    "chart-problem": "added by charts.js when a chart cannot be fetched",
    "side-count": "only while something waits in the side bar",
    "bell-count": "only while messages are unread",
    "unread": "in the list of messages",
    "pool-part": "quota of several pools in one row",
    "front": "the page of signing in",
    "front-tools": "the page of signing in",
}
CLASS = re.compile(r"\.(-?[a-zA-Z_][\w-]*)")


@pytest.fixture
def w(db: None) -> World:
    return world()


def classes_of(sheet: str) -> set[str]:
    text = (ROOT / f"static/frontend/css/{sheet}.css").read_text("utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+)\{", text)
    return {name for selector in selectors if "js-plotly" not in selector for name in CLASS.findall(selector)}


def test_every_class_of_a_component_is_shown(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    shown = {
        name
        for address in ADDRESSES
        for element in BeautifulSoup(client.get(address).content, "html.parser").find_all(class_=True)
        for name in element["class"]
    }
    missing = {f"{sheet}: {name}" for sheet in SHEETS for name in classes_of(sheet) - shown - set(ELSEWHERE)}
    assert sorted(missing) == []


def test_every_template_of_a_component_is_used(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    used = {template.name for address in ADDRESSES for template in client.get(address).templates}
    files = [*TEMPLATES.glob("components/*.html"), *TEMPLATES.glob("lists/*.html")]
    parts = {
        f"frontend/{file.relative_to(TEMPLATES)}"
        for file in files
        if "{% extends" not in file.read_text("utf-8")
    }
    assert sorted(parts - used) == []


def test_both_themes_have_the_same_parts_and_the_page_is_for_operators(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    soup = BeautifulSoup(client.get(ADDRESSES[0]).content, "html.parser")
    light, dark = (
        [element.name for element in soup.find(id=theme).find_all()] for theme in ("light", "dark")
    )
    assert light == dark and len(light) > 100
    sheet = (ROOT / "static/frontend/css/tokens.css").read_text("utf-8")
    tokens = set(re.findall(r"(?m)^  --([a-z0-9-]+): light-dark\((?:#|rgb)", sheet))
    assert {code.text for code in soup.select(".swatches code")} == tokens
    assert client.post(ADDRESSES[0]).status_code == 302
    client.force_login(w.editor)
    assert client.get(ADDRESSES[0]).status_code == 403
