"""A button outlives the part of the page that it fills, so that it can be pressed again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bs4 import BeautifulSoup

TEMPLATES: Final = Path(__file__).parents[3] / "frontend" / "templates"


def inside_their_targets(text: str) -> list[str]:
    """Ids of elements that hold what replaces them, though nothing of it says that it comes again."""
    page = BeautifulSoup(text, "html.parser")
    targets = [(element, str(element["hx-target"])[1:]) for element in page.select('button[hx-target^="#"]')]
    return [name for element, name in targets if element.find_parent(id=name)]


def filled_for_a_queue(text: str) -> list[str]:
    """Ids of elements that a button fills for the queue of a form, and that keep it for another queue."""
    page = BeautifulSoup(text, "html.parser")
    buttons = page.select('button[hx-include="#job-form [name=queue]"]')
    places = [page.find(id=str(button["hx-target"])[1:]) for button in buttons]
    return [str(place["id"]) for place in places if place and place.get("data-emptied-by") != "queue"]


def test_a_button_in_its_own_target_and_a_part_that_outlives_its_queue_are_found() -> None:
    button = '<button hx-target="#a" hx-include="#job-form [name=queue]">'
    assert inside_their_targets(f'<div id="a"><p>{button}</button></p></div>') == ["a"]
    assert filled_for_a_queue(f'{button}</button><div id="a"></div>') == ["a"]
    after = f'{button}</button><div id="a" data-emptied-by="queue"></div>'
    assert not inside_their_targets(after) and not filled_for_a_queue(after)


def test_no_button_is_replaced_by_what_it_reads() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in TEMPLATES.rglob("*.html")}
    assert "job_new_form.html" in found and "data-emptied-by" in found["job_new_form.html"]
    for name, text in found.items():
        assert not inside_their_targets(text) and not filled_for_a_queue(text), name
