"""Components render on their own, escape what they are given, and need no inline style or script."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser
from django.core.paginator import Paginator
from django.template import engines
from django.test import RequestFactory

import frontend
from frontend import charts
from frontend.components import view_models
from frontend.components.capacity import GpuTile, Meter, NodeTiles
from frontend.shell import context
from frontend.shell.navigation import navigation_sections, product_of

LOAD = "{% load ui amounts capacity %}"
TEMPLATES = Path(frontend.__file__).parent / "templates"


def render(source: str, path: str = "/", **values: object) -> str:
    request = RequestFactory().get(path)
    return str(engines["django"].from_string(LOAD + source).render(values, request)).strip()


def test_a_state_has_its_word_and_tone() -> None:
    assert render("{% status 'job' 'running' %}") == '<span class="tag running">Running</span>'
    assert render("{% status 'job' 'brand-new' %}") == '<span class="tag done">brand new</span>'


def test_a_card_escapes_its_title_but_not_its_content() -> None:
    html = render("{% card title=name %}<p>{{ name }}</p>{% endcard %}", name="<b>")
    assert "<h2>&lt;b&gt;</h2>" in html
    assert "<p>&lt;b&gt;</p>" in html


def test_chips_keep_the_other_filters_and_forget_the_page() -> None:
    options = [view_models.Chip(label="All"), view_models.Chip(label="Running", value="running", count=3)]
    html = render("{% chips 'state' options %}", "/?q=a&page=4&state=running", options=options)
    assert 'href="?q=a"' in html
    assert 'href="?q=a&amp;state=running" aria-current="true"' in html


def test_pages_keep_the_filters() -> None:
    html = render("{% pages page %}", "/?q=a&page=3", page=Paginator(range(1234), 50).page(3))
    assert "Total 1,234" in html
    assert "page 3 of 25" in html
    assert 'href="?q=a&amp;page=4"' in html


def test_a_sortable_head_turns_round() -> None:
    assert 'href="?sort=-name"' in render("{% th 'Name' sort='name' %}", "/?sort=name&page=2")


def test_a_field_ties_help_and_error_to_its_control() -> None:
    class Form(forms.Form):
        cards = forms.IntegerField(help_text="A slice counts as one card.")

    html = render("{% field form.cards %}", form=Form({"cards": ""}))
    assert 'aria-describedby="id_cards_help id_cards_error"' in html
    assert html.count('id="id_cards_error"') == 1
    assert 'aria-invalid="true"' in html


def test_a_meter_has_its_numbers_in_words() -> None:
    html = render("{% meter m %}", m=Meter(nominal=64, allocated=72, used=49, borrowed=8))
    assert 'aria-label="72 of 64 allocated, 49 used, 8 borrowed, 0 free"' in html


def test_tiles_of_a_node_link_to_their_cards() -> None:
    node = NodeTiles(name="gpu-a01", state="lost", gpus=[GpuTile(name="GPU 0", url="/g/0", healthy=False)])
    html = render("{% gpu_grid nodes %}", nodes=[node])
    assert '<a href="/g/0" aria-label="GPU 0, unhealthy, 0 % allocated"' in html
    assert "node unhealthy" in html


def test_a_confirmation_says_what_will_be_lost() -> None:
    html = render("{% confirm 'stop' 'Cancel?' url='/x' action='Cancel job' losses=l %}", l=["3.3 GPU-hours"])
    assert '<dialog class="dialog" id="stop"' in html
    assert "3.3 GPU-hours" in html


def test_a_chart_brings_its_figure_and_its_words() -> None:
    line = charts.ChartLine(name="used", points=[(datetime(2026, 3, 1, tzinfo=UTC), 61.0)])
    chart = charts.time_series("use", [line], unit="%", title="Use")
    html = render("{% chart chart %}", chart=chart)
    assert 'aria-label="Use: used 61 %"' in html
    assert '<script type="application/json">' in html


def test_a_live_region_names_its_source() -> None:
    html = render("{% live '/frag' key='tasks' every=3 %}<p>x</p>{% endlive %}")
    assert 'id="live-tasks" data-live="/frag" data-live-every="3"' in html
    assert "<p>x</p>" in html


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_templates_hold_no_inline_style_script_or_handler(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not re.search(r"\sstyle=", source)
    assert not re.search(r"\son\w+=", source)
    assert not re.search(r"<script(?![^>]*\ssrc=)", source)


def test_the_frame_works_for_visitors_without_an_account() -> None:
    request = RequestFactory().get("/nowhere")
    request.user = AnonymousUser()
    console = context.console_context(request)["console"]
    assert console.product == "workspace"
    assert console.operations_url == ""


def test_the_frame_survives_a_broken_address() -> None:
    request = RequestFactory().get("/x")
    request.resolver_match = SimpleNamespace(view_name=None, kwargs={})  # type: ignore[assignment]
    assert context.console_context(request)["console"].product == "workspace"


def test_products_and_sections_come_from_the_address() -> None:
    assert product_of("frontend:ops-node") == "operations"
    assert product_of("frontend:job-detail") == "workspace"
    shown = navigation_sections("frontend:job-new", "speech-lab", {"jobs": 14})
    assert [link.key for section in shown for link in section.links if link.current] == ["jobs"]
