"""Every package speaks Chinese in full, and each compiled catalogue is the one of its sources."""

from __future__ import annotations

import ast
import gettext
import re
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from django.utils.translation.template import templatize

from foundation.core.sentences import join_sentences

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(
    path.parent
    for pattern in ("*/apps.py", "platform/*/apps.py")
    for path in ROOT.glob(pattern)
    if path.parent.name != "tests"
)
_ENTRY = re.compile(
    r'((?:^#.*\n)*)(?:^msgctxt "(?P<context>.*)"\n)?^msgid (?P<id>(?:".*"\n)+)'
    r'(?:^msgid_plural (?:".*"\n)+)?^msgstr(?:\[0\])? (?P<text>(?:".*"\n?)+)',
    re.M,
)
_PLACE = re.compile(r"%\(\w+\)[a-z]|%%")
_LITERAL = r"u?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_CALLS = {"_", "gettext", "gettext_lazy", "gettext_noop", "pgettext", "pgettext_lazy"}
# Chinese has one form for every number, so an entry with a plural is known by its singular.
_PLURALS = {"ngettext", "ngettext_lazy"}
every_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)


def _folder(package: Path) -> Path:
    return package / "locale" / "zh_Hans" / "LC_MESSAGES"


def _unquoted(lines: str) -> str:
    return "".join(ast.literal_eval(line) for line in lines.splitlines())


@cache
def source(package: Path) -> str:
    file = _folder(package) / "django.po"
    return file.read_text("utf-8") if file.exists() else ""


@cache
def catalogue(package: Path) -> dict[str, str]:
    entries = {}
    for match in _ENTRY.finditer(source(package)):
        context = f"{match['context']}\x04" if match["context"] else ""
        entries[context + _unquoted(match["id"])] = _unquoted(match["text"])
    entries.pop("", None)
    return entries


def _texts(call: ast.Call) -> list[str]:
    return [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]


def used_in_python(package: Path) -> set[str]:
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in _CALLS | _PLURALS and (texts := _texts(node)):
                found.add(texts[0] if name in _PLURALS else "\x04".join(texts))
    return found


def used_in_templates(package: Path) -> set[str]:
    found = set()
    for path in package.rglob("*.html"):
        python = str(templatize(path.read_text("utf-8"), origin=str(path)))
        for context, text in re.findall(rf"(?:pgettext\(({_LITERAL}), |gettext\()({_LITERAL})", python):
            found.add("\x04".join(ast.literal_eval(part) for part in (context, text) if part))
    return found


def test_the_packages_are_found() -> None:
    names = {package.name for package in PACKAGES}
    assert names == {
        "alerts", "allotment", "clusters", "foundation", "frontend", "quotas", "scheduling", "telemetry",
        "tenants",
    }  # fmt: skip


@every_package
def test_every_string_is_translated(package: Path) -> None:
    known = catalogue(package)
    used = used_in_python(package) | used_in_templates(package)
    assert used - set(known) == set(), "run makemessages and translate them"
    assert [key for key, text in known.items() if not text] == []
    assert set(known) - used == set(), "no longer used"
    assert "#, fuzzy" not in source(package)
    assert "#~" not in source(package), "no longer used"


@every_package
def test_nothing_is_put_into_a_string_before_it_is_translated(package: Path) -> None:
    bad = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _CALLS | _PLURALS
        # The third argument of a plural is the number.
        if any(isinstance(argument, ast.JoinedStr | ast.BinOp) for argument in node.args[:2])
    ]
    assert bad == []


@every_package
def test_placeholders_survive_translation(package: Path) -> None:
    for key, text in catalogue(package).items():
        assert sorted(_PLACE.findall(key)) == sorted(_PLACE.findall(text)), key


@every_package
def test_the_compiled_catalogue_is_up_to_date(package: Path) -> None:
    with (_folder(package) / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    found = {key[0] if isinstance(key, tuple) else key: text for key, text in compiled.items() if key}
    assert found == catalogue(package), "run msgfmt again"


def test_a_sentence_of_two_packages_has_one_translation() -> None:
    # Django merges the catalogues, so one of two translations would win, by an order that is not chosen.
    found: defaultdict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for key, text in catalogue(package).items():
            found[key].add(text)
    assert {key: texts for key, texts in found.items() if len(texts) > 1} == {}


@every_package
def test_chinese_is_written_with_its_own_punctuation_and_one_word_for_a_job(package: Path) -> None:
    half = re.compile(
        "[\u4e00-\u9fff”）)][,;:!?]|[,;:!?][\u4e00-\u9fff]|[\u4e00-\u9fff][()]|[()][\u4e00-\u9fff]"
    )
    texts = {key: _PLACE.sub("…", text) for key, text in catalogue(package).items()}
    assert [text for text in texts.values() if half.search(text)] == []
    # A job is 任务, a task of it 子任务; 作业 is a third word for the same.
    assert [text for text in texts.values() if "作业" in text] == []


def _join_with_colons(package: Path) -> list[str]:
    """List the places that put a colon of their own between two texts."""
    found = []
    for path in package.rglob("*.html"):
        plain = re.sub(
            r"{%\s*blocktranslate.*?endblocktranslate\s*%}", "", path.read_text("utf-8"), flags=re.S
        )
        found += [f"{path.name}: {text}" for text in re.findall(r".{0,30}[}](?:</\w+>)?: ", plain)]
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            if any(isinstance(one, ast.Constant) and str(one.value).startswith(": ") for one in parts[1:]):
                found.append(f"{path.name}:{node.lineno}")
    return found


def test_a_colon_between_two_texts_of_the_console_is_translated() -> None:
    python = "copies.py:"  # a program that users copy
    found = [place for place in _join_with_colons(ROOT / "frontend") if not place.startswith(python)]
    assert found == [], "write _(': ')"


def _list_joined_sentences(package: Path) -> list[str]:
    """List the places that join translated texts by a space or a semicolon of their own."""
    found = []
    for path in package.rglob("*.py"):
        if "management" in path.parts:
            continue  # commands write English
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Constant("; " | ". "), attr="join")):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.BinOp(op=ast.Add(), left=ast.Constant(" "), right=right) if _has_text(right):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.BinOp(op=ast.Add(), left=ast.BinOp(right=ast.Constant(" ")), right=right) if (
                    _has_text(right)
                ):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.JoinedStr(values=parts) if any(
                    isinstance(one, ast.Constant) and one.value in (" ", " (") for one in parts
                ) and any(_has_text(one) for one in parts):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.FunctionDef():
                    found += [f"{path.name}:{line}" for line in _list_joined_names(node)]
                case ast.Call(func=ast.Attribute(value=ast.Constant(" "), attr="join"), args=[each]) if (
                    _has_text(each)
                ):
                    found.append(f"{path.name}:{node.lineno}")
    return found


def _list_joined_names(function: ast.FunctionDef) -> list[int]:
    """List the lines where a space joins something to a variable with a whole text."""
    assigned = (one for one in ast.walk(function) if isinstance(one, ast.Assign))
    texts = {ast.unparse(one.targets[0]) for one in assigned if _is_text(one.value)}
    return [
        one.lineno
        for one in ast.walk(function)
        if isinstance(one, ast.JoinedStr)
        for left, right in pairwise(one.values)
        if isinstance(left, ast.Constant)
        and left.value == " "
        and isinstance(right, ast.FormattedValue)
        and ast.unparse(right.value) in texts
    ]


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression is a translated text, filled in or not."""
    node = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) else node
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_", "gettext", "ngettext")


def _has_text(node: ast.AST) -> bool:
    """Return whether an expression translates something, or reads the sentence of an error."""
    names = {"_", "gettext", "ngettext", "pgettext"}
    return any(
        (isinstance(one, ast.Name) and one.id in names)
        or (isinstance(one, ast.Attribute) and one.attr in ("detail", "message"))
        for one in ast.walk(node)
    )


def test_sentences_are_joined_as_their_language_does() -> None:
    """Chinese has no space after a full stop and brackets of its own."""
    packages = [ROOT / name for name in ("frontend", "quotas", "tenants", "platform/alerts")]
    wrong = [f"{one.name}/{place}" for one in packages for place in _list_joined_sentences(one)]
    assert wrong == [], "use join_sentences, add_note or _('; ')"
    assert join_sentences(["已保存。", "", "将重试。", "Done.", "Next."]) == "已保存。将重试。Done. Next."
