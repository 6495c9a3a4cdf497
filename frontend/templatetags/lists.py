"""Parts of a list: its tools, head, cells, menus of rows, foot and the panel of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django import template
from django.core.paginator import Page
from django.template.base import Node, NodeList, Parser, Token
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join, json_script
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from frontend.lists.batch import BatchAct
from frontend.lists.conditions import WORDS, offered_fields
from frontend.lists.declaration import INTERVALS, SIZES, ListColumn, ListDeclaration
from frontend.lists.page_list import FORM, SHOWN, PageList
from frontend.lists.row_form import NEW
from frontend.templatetags.ui import icon

register = template.Library()


def _shown(context: template.Context) -> PageList:
    found = context["listing"]
    assert isinstance(found, PageList)  # noqa: S101
    return found


@register.inclusion_tag("frontend/lists/tools.html", takes_context=True)
def list_tools(context: template.Context) -> dict[str, object]:
    """Return the address's conditions, the filter builder, the reader's columns, the order and the file."""
    shown = _shown(context)
    return {
        "listing": shown,
        "builder": _write_builder(shown.declared, get_language()),
        "chosen": set(shown.choice.columns),
        "sizes": SIZES,
        "intervals": INTERVALS,
        "hidden": _hidden_pairs(shown),
        "hidden_for_sort": _hidden_pairs(shown, "sort"),
        "operators": list(WORDS.items()),
        "csrf_token": context.get("csrf_token"),
    }


@lru_cache(maxsize=256)
def _write_builder(declared: ListDeclaration, _language: str | None) -> Mapping[str, SafeString]:
    """Return the filter builder's fields as options, and their operators and values as a script for the
    browser.
    """
    offered = offered_fields(declared)
    options = ((one.name, one.kind, one.label) for one in offered)
    suits = {
        one.name: {"operators": one.operators, "choices": one.choices, "suggestions": one.suggestions}
        for one in offered
    }
    return {
        "fields": format_html_join("", '<option value="{}" data-kind="{}">{}</option>', options),
        "script": json_script(suits, f"filter-{declared.key}"),
    }


@register.simple_block_tag(takes_context=True)
def list_table(context: template.Context, content: str, batch: str = "") -> SafeString:
    """Return the table of a list around its rows. `batch` is the id of the form of selected rows."""
    shown = _shown(context)
    heads = format_html_join("", "{}", ((_head(shown, column),) for column in shown.columns))
    if batch:
        label = _("Select all rows")
        box = format_html(
            '<input type="checkbox" data-select-all form="{}" aria-label="{}" hidden>', batch, label
        )
        heads = format_html('<th scope="col" class="select">{}</th>{}', box, heads)
    return format_html(
        '<div class="table-scroll" role="group" tabindex="0" aria-label="{}"><table class="stacks listing">'
        '<thead><tr>{}<th scope="col"><span class="sr-only">{}</span></th></tr></thead>'
        "<tbody>{}</tbody></table></div>",
        shown.declared.title, heads, _("Actions"), content,
    )  # fmt: skip


def _head(shown: PageList, column: ListColumn) -> SafeString:
    css = "num" if column.number else ""
    if not column.sort:
        return format_html(
            '<th scope="col" class="{}" data-column="{}">{}</th>', css, column.key, column.label
        )
    rising, falling = column.sort, f"-{column.sort}"
    order = {rising: "ascending", falling: "descending"}.get(shown.sort, "none")
    return format_html(
        '<th scope="col" class="{}" data-column="{}" aria-sort="{}"><a href="{}">{}</a></th>',
        css, column.key, order,
        shown.url(sort=falling if shown.sort == rising else rising, page=None), column.label,
    )  # fmt: skip


class _CellNode(Node):
    """One cell of a row: empty for a hidden column, a term and its value within the panel."""

    def __init__(self, key: str, css: str, content: NodeList) -> None:
        self.key, self.css, self.nodelist = key, css, content

    def render(self, context: template.Context) -> SafeString:
        shown = _shown(context)
        if shown.shown_id and context.get("in_panel"):
            return self._render_pair(context, shown.all_columns_by_key.get(self.key), shown)
        place = (self.key, self.css)
        opening_tag = shown.cell_opening_tags.get(place)
        if opening_tag is None:
            opening_tag = shown.cell_opening_tags[place] = _build_opening_tag(shown, self.key, self.css)
        if not opening_tag:
            return SafeString("")
        return SafeString(f"{opening_tag}{self.nodelist.render(context).strip()}</td>")

    def _render_pair(
        self, context: template.Context, column: ListColumn | None, shown: PageList
    ) -> SafeString:
        if column is None or column is shown.declared.columns[0]:
            return SafeString("")
        content = SafeString(self.nodelist.render(context).strip())
        return format_html("<dt>{}</dt><dd>{}</dd>", column.label, content)


def _build_opening_tag(shown: PageList, key: str, css: str) -> str:
    """Return the opening tag of the cells of a column; empty for one that isn't shown."""
    column = shown.columns_by_key.get(key)
    if column is None:
        return ""
    lead = "lead" if column is shown.declared.columns[0] else ""
    classes = " ".join(part for part in (lead, "num" if column.number else "", css) if part)
    return format_html('<td class="{}" data-column="{}" data-label="{}">', classes, key, column.label)


@register.tag("cell")
def parse_cell(parser: Parser, token: Token) -> _CellNode:
    """Read `{% cell "key" %}…{% endcell %}`, optionally with classes: `{% cell "key" "quiet" %}`."""
    _name, *parts = token.split_contents()
    if not 1 <= len(parts) <= 2:
        raise template.TemplateSyntaxError("cell takes a column and at most one text of classes")
    content = parser.parse(("endcell",))
    parser.delete_first_token()
    if not all(part[0] == part[-1] == '"' for part in parts):
        raise template.TemplateSyntaxError("cell takes texts, which are the same for every row")
    key, css = (part.strip('"') for part in (*parts, '""')[:2])
    return _CellNode(key, css, content)


@register.simple_tag(takes_context=True)
def list_select(
    context: template.Context, form: str, item: object, name: str, fixed: object = False
) -> SafeString:
    """Return the checkbox that selects a row for batch actions; none for a row that is `fixed`."""
    if context.get("in_panel"):
        return SafeString("")
    if fixed:
        return SafeString('<td class="select"></td>')
    return format_html(
        '<td class="select"><input type="checkbox" name="item" value="{}" form="{}" aria-label="{}"></td>',
        item, form, _("Select %(name)s") % {"name": name},
    )  # fmt: skip


@register.simple_block_tag(takes_context=True)
def row_menu(context: template.Context, content: str, item: object, name: str) -> SafeString:
    """Return the menu of a row's actions, headed by the details; within the panel the actions are listed
    below.
    """
    if context.get("in_panel"):
        return SafeString("")
    return format_html(
        '<td class="row-actions"><details class="menu row-menu" data-menu>'
        '<summary class="plain-button" aria-label="{}" title="{}">{}</summary><div class="menu-panel">'
        '<a href="{}" data-list-details="{}">{}{}</a>{}</div></details></td>',
        _("Actions for %(name)s") % {"name": name}, _("Actions"), icon("ellipsis-vertical"),
        _shown(context).details_url(item), item, icon("panel-right"), _("Show details"), content,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def row_acts(context: template.Context, line: Any, fixed: object = False) -> SafeString:
    """Return the form of a row and the actions that fit it; nothing for a row that is `fixed`."""
    if fixed:
        return SafeString("")
    form = SafeString("")
    if context.get("edits"):
        link = '<a href="{}" data-list-form>{}{}</a>'
        form = format_html(link, form_url(context, line.id), icon("pencil"), _("Edit"))
    acts: Sequence[BatchAct] = context.get("acts") or ()
    buttons = ((act.key, line.id, icon(act.icon), act.label) for act in acts if act.fits(line))
    return form + format_html_join("", '<button form="batch" name="one" value="{} {}">{}{}</button>', buttons)


@register.simple_tag(takes_context=True)
def form_url(context: template.Context, item: object) -> str:
    """Return the address at which the form of a row is open."""
    return _shown(context).url(**{FORM: str(item)})


@register.simple_tag(takes_context=True)
def list_add(context: template.Context, label: str) -> SafeString:
    """Return the button that opens the form of a new row."""
    link = '<a class="button primary" href="{}" data-list-form>{}{}</a>'
    return format_html(link, _shown(context).url(**{FORM: NEW}), icon("plus"), label)


@register.inclusion_tag("frontend/lists/sections.html", takes_context=True)
def list_sections(context: template.Context) -> dict[str, object]:
    """Return links to the lists that belong together, the present one marked."""
    path = _shown(context).path
    found = [(url, label, urlsplit(url).path == path) for url, label in context["sections"]]
    return {"sections": found}


@register.inclusion_tag("frontend/lists/form.html", takes_context=True)
def list_form(context: template.Context) -> dict[str, object]:
    """Return the form that is open, as a dialog."""
    names = ("open_form", "listing", "csrf_token")
    return {name: context.get(name) for name in names}


@register.simple_tag(takes_context=True)
def list_mark(context: template.Context) -> SafeString:
    """Return the mark that shows whether the list is current; none for a list that the reader refreshes."""
    shown = _shown(context)
    if not shown.choice.every_s:
        return SafeString("")
    mark = '<span class="live-mark" data-live-mark="live-{}">{}</span>'
    return format_html(mark, shown.declared.key, _("Live"))


@register.simple_block_tag(takes_context=True)
def list_live(context: template.Context, content: str) -> SafeString:
    """Return the rows of a list, which refresh at the interval that the reader chose."""
    shown = _shown(context)
    values = {
        "content": content,
        "url": shown.live_url,
        "key": shown.declared.key,
        "every": shown.choice.every_s,
        # A reader who chose a longer interval than the default sees changes only at that interval.
        "calm": shown.choice.every_s > shown.declared.every_s,
    }
    region = SafeString(render_to_string("frontend/components/live.html", values))
    return format_html("<div data-list-live>{}</div>", region)


@register.inclusion_tag("frontend/lists/foot.html", takes_context=True)
def list_foot(context: template.Context) -> dict[str, object]:
    """Return the total and the page number, without a total if rows are not counted, and the page sizes."""
    shown: PageList = _shown(context)
    page: Page[Any] = context["page"]

    def get_url(number: int) -> str:
        return shown.url(page=str(number), **{SHOWN: None})

    return {
        "page": page,
        "total_known": getattr(page.paginator, "counted", True),
        "previous": get_url(page.previous_page_number()) if page.has_previous() else "",
        "next": get_url(page.next_page_number()) if page.has_next() else "",
        "sizes": [
            (size, shown.url(pageSize=str(size), page=None, **{SHOWN: None}), size == shown.size)
            for size in SIZES
        ],
    }


@register.inclusion_tag("frontend/lists/batch_bar.html", takes_context=True)
def batch_bar(
    context: template.Context, form_id: str, url: str, acts: Sequence[BatchAct]
) -> dict[str, object]:
    """Return the actions for selected rows, below the list; scripts show them once a row is selected."""
    values = {"form_id": form_id, "url": url, "acts": acts, "listing": _shown(context)}
    return {**values, "csrf_token": context.get("csrf_token")}


@register.simple_block_tag(takes_context=True)
def list_panel(context: template.Context, content: str, title: str, url: str = "") -> SafeString:
    """Return the details of one row beside its list: every column, and a link to the row's own page."""
    close = _shown(context).url(**{SHOWN: None})
    values = {"content": content, "title": title, "url": url, "close": close}
    return render_to_string("frontend/lists/panel.html", values)


@register.simple_tag(takes_context=True)
def list_hidden(context: template.Context, *own: str) -> SafeString:
    """Return the filters and the order of the address as hidden fields, for a form with `own` fields."""
    pairs = _hidden_pairs(_shown(context), *own)
    return format_html_join("", '<input type="hidden" name="{}" value="{}">', pairs)


def _hidden_pairs(shown: PageList, *own: str) -> list[tuple[str, str]]:
    left_out = {*own, "page", SHOWN, FORM}
    return [(name, value) for name, values in shown.query.lists() if name not in left_out for value in values]
