"""The console is complete in Chinese, and the compiled catalogue is the one of the sources."""

from __future__ import annotations

import ast
import gettext
import re
from pathlib import Path

from django.utils.translation.template import templatize

import frontend

ROOT = Path(frontend.__file__).parent
FOLDER = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES"
_ENTRY = re.compile(
    r'((?:^#.*\n)*)(?:^msgctxt "(?P<context>.*)"\n)?^msgid (?P<id>(?:".*"\n)+)'
    r'(?:^msgid_plural (?:".*"\n)+)?^msgstr(?:\[0\])? (?P<text>(?:".*"\n?)+)',
    re.M,
)
_CALLS = {"_", "gettext", "gettext_lazy", "gettext_noop", "pgettext", "pgettext_lazy"}
# Chinese has one form for every number, so an entry with a plural is known by its singular.
_PLURALS = {"ngettext", "ngettext_lazy"}


def _unquoted(lines: str) -> str:
    return "".join(ast.literal_eval(line) for line in lines.splitlines())


def catalogue() -> dict[str, str]:
    source = (FOLDER / "django.po").read_text("utf-8")
    assert "#, fuzzy" not in source
    entries = {}
    for match in _ENTRY.finditer(source):
        context = f"{match['context']}\x04" if match["context"] else ""
        entries[context + _unquoted(match["id"])] = _unquoted(match["text"])
    return entries


def used_in_python() -> set[str]:
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in _CALLS | _PLURALS:
                texts = [
                    a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
                ]
                found.add(texts[0] if name in _PLURALS else "\x04".join(texts))
    return found


def used_in_templates() -> set[str]:
    found = set()
    for path in ROOT.rglob("*.html"):
        for text in re.findall(r"gettext\(u?('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", _as_python(path)):
            found.add(ast.literal_eval(text))
    return found


def _as_python(path: Path) -> str:
    return str(templatize(path.read_text("utf-8"), origin=str(path)))


def test_every_string_is_translated() -> None:
    known = catalogue()
    used = used_in_python() | used_in_templates()
    assert used - set(known) == set()
    assert [key for key, text in known.items() if key and not text] == []
    assert set(known) - used - {""} == set(), "no longer used"


def test_placeholders_survive_translation() -> None:
    for key, text in catalogue().items():
        if key:
            assert sorted(re.findall(r"%\(\w+\)s", key)) == sorted(re.findall(r"%\(\w+\)s", text)), key


def test_the_compiled_catalogue_is_up_to_date() -> None:
    with (FOLDER / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    wanted = {key: text for key, text in catalogue().items() if key}
    found = {key[0] if isinstance(key, tuple) else key: text for key, text in compiled.items() if key}
    assert found == wanted, "run msgfmt again"
