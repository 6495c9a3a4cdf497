"""No text for users contains a retired phrase: catalogues, command line, errors, API reference, documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from tests.architecture.sources import ROOT, find_files, parse_file, walk_tree
from tests.unit import test_translations as catalogues

PACKAGES: Final = ("frontend", "quotas", "tenants", "scheduling", "platform", "client/src")
HELPS: Final = frozenset({"help", "help_text", "summary", "description", "epilog"})

# A pattern of the retired phrase, and the words to use instead.
RETIRED: Final = {
    r"\bcards?\b": "GPU, whole GPU, GPU slice",
    r"\bloans?\b|\blenders?\b|\blends? (it|quota for)\b": "temporary quota, from tenant, to tenant",
    r"\bcounter-offers?\b|\boffer(s|ed)?\b": "proposal",
    r"\btold to (leave|end)\b|\b(has|have) to leave\b|\bgives? way\b|\bpush(es|ed)? out\b": "evict, preempt",
    r"\bgives? back what\b|\bgave back\b": "release resources",
    r"\blook(s|ed)? at\b": "evaluate",
    r"\bloosen\b": "relax",
    r"\bno such\b|\b[Tt]here (is|are) no\b|\b[Tt]here is such\b": "X not found, No X",
    r"\bThere is an? .* already\b": "already exists",
    r"\bis no (field|label|amount|resource|value|CSV|YAML)\b": "Invalid X",
    r"\bthere are: ": "Valid: …",
    r", as in ": "for example",
    r"\bcannot\b": "can't",
    r"\butilisation\b|\bcancelled\b|\blower-case\b|\btime-out\b": "utilization, canceled, lowercase, timeout",
    r"\b[Nn]obody\b|\b[Ss]omebody\b|\b[Ee]verybody\b": "no X, all users",
    r"\b[Ww]ho (asked|decides|lends|borrows|stands)\b|\bWhose\b": "requester, approver, owner",
    r"\b[Aa]n operator\b|\boperators? of the platform\b": "platform admin",
    r"\bgo(es)? on\b|\bgo(es)? along\b": "keeps running, moves too",
    r"\btak(e|es|en|ing) back\b|\btake it back\b": "revert, revoke, withdraw, reclaim",
    r"\bin (your |the )?sight\b": "that you can view",
    r"\bstands? (below|above|here|beside)\b": "is a child of, is shown",
    r"\bfor good\b|\bby (itself|themselves)\b": "permanent, automatically",
    r"\b(did|does|do) not answer\b|\banswers again\b": "is unreachable, is reachable again",
    r"\bwork of others\b|\bheld by others\b": "used outside Allotment",
    r"\bmade up\b|\bdid nothing\b|\bgone\b": "generated, idle, deleted",
    r"\b(It|Its) (is|has|was|asks|waits|gives|takes|failed|goes)\b": "the noun: job, node, cluster",
    r"\b(waits|waiting) for a decision\b|\bwaiting jobs?\b|\bjobs waiting\b": "pending",
    r"\bhottest\b|\bprints?\b (what|nothing)|\bstory\b": "Max, position, logs, timeline",
    r"\b[Nn]othing was (changed|saved|submitted|lent|held)\b|\bwas carried out\b": "No changes were made",
    r"\bthe books\b|\bdemands? (that|of)\b|\bpromised?\b": "usage, policy, reserved",
}
RETIRED_CHINESE: Final = {
    "容器组": "Pod", "GPU 时(?!长)": "GPU 小时", "还价": "调整方案", "借调": "临时配额",
    "封印": "哈希链", "运维人员": "平台管理员", "拥有者": "所有者", "名义配额": "保障配额",
    "挂起": "暂停", "他方": "平台外", "放得下|放不下": "资源充足", "怎么办": "建议操作",
    "开设": "创建", "优先级类别": "优先级", "作业": "任务", "看不到任何": "暂无",
    "没有做任何更改|未作任何更改": "未做任何更改", r"\d 卡|张卡": "张 GPU", "它现名": "当前名称",
}  # fmt: skip

# Names of fields, commands and codes are contracts.
_CODE: Final = re.compile(r"`[^`]*`|%\(\w+\)s|\{[^}]*\}|\b\w+\.cards\b|https?://\S+")


def retired(text: str) -> list[str]:
    """Return each retired phrase of a text with what to say instead."""
    plain = _CODE.sub("…", text)
    tables = (*RETIRED.items(), *RETIRED_CHINESE.items())
    return [f"{found[0]!r}: say {instead}" for words, instead in tables if (found := re.search(words, plain))]


def catalogue_texts() -> Iterator[tuple[str, str]]:
    for package in catalogues.PACKAGES:
        for key, text in catalogues.catalogue(package).items():
            name = f"{package.name}: {key.split(chr(4))[-1]}"
            yield name, key.split("\x04")[-1]
            yield name, text


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield what the command line and the API reference say about commands, options, endpoints and fields."""
    for path in find_files(*PACKAGES):
        if "models" in path.parts or "conformance" in path.parts:
            continue
        for node in walk_tree(parse_file(path)):
            named = isinstance(node, ast.keyword) and node.arg in HELPS
            if named or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "help"):
                value = getattr(node, "value", None)
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield f"{path.relative_to(ROOT)}:{value.lineno}", value.value


# Modules whose every text is output: commands, the client's command line and `allotment up`.
OUTPUT: Final = ("management/", "/cli/", "allotment/supervisor/", "allotment/cli.py", "agent/cli.py")
# The engine speaks in codes, and the readers of other schedulers' cases to developers.
NO_USERS: Final = ("scheduling/conformance/", "scheduling/engine/")


# Calls that carry a message to a user although they raise no error themselves.
_MESSAGES: Final = re.compile(
    r"(Error|Conflict|Invalid|NotFound|Refused|Denied|TooLarge|Unavailable|Disowned|NoRoom|Unusable)$"
    r"|^(add_problem|refuse_field|reject_value|of_refusal|of_unknown)$"
)


def _carries_message(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return _MESSAGES.search(name) is not None
    return isinstance(node, ast.Raise)


def _texts_below(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value:
            yield each.lineno, each.value


def _docstrings(tree: ast.Module) -> set[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return {ast.get_docstring(node, clean=False) or "" for node in walk_tree(tree) if isinstance(node, kinds)}


def message_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of errors, and all texts of modules that write to a terminal, translated or not."""
    for path in find_files(*PACKAGES):
        place = str(path.relative_to(ROOT))
        if any(part in place for part in NO_USERS):
            continue
        tree = parse_file(path)
        whole = any(part in place for part in OUTPUT)
        documented = _docstrings(tree) if whole else set()
        for root in [tree] if whole else filter(_carries_message, walk_tree(tree)):
            yield from (
                (f"{place}:{line}", text) for line, text in _texts_below(root) if text not in documented
            )


def reference_texts() -> Iterator[tuple[str, str]]:
    def walk(value: object, place: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in ("description", "summary") and isinstance(inner, str):
                    yield place, inner
                yield from walk(inner, f"{place}/{key}")
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner, place)

    document = (ROOT / "docs" / "openapi.yaml").read_text("utf-8")
    yield from walk(yaml.load(document, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), "")


# Written for readers of the code: their words for code may be those that the console must not use.
OF_THE_CODE: Final = frozenset({"architecture.md", "glossary.md", "reasons.md"})
# A document may use the long form, a pronoun for the subject of its paragraph, and "gone" of confirmed pods;
# "lends it" is Kueue's lending limit, and a "card" is also a kind of chat message.
IN_DOCUMENTS: Final = re.compile(r"\b(cannot|gone|It is|It has|lends it|robot \| card|guaranteed to any)\b")


def document_texts() -> Iterator[tuple[str, str]]:
    """Yield each line of the documents for users outside code blocks."""
    for path in [*ROOT.glob("README*.md"), ROOT / "client" / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.S)
        for number, line in enumerate(text.splitlines()):
            if path.name not in OF_THE_CODE:
                yield f"{path.relative_to(ROOT)} {number}", IN_DOCUMENTS.sub("…", line)


SOURCES: Final = {
    "catalogues": catalogue_texts,
    "helps": help_texts,
    "messages": message_texts,
    "API reference": reference_texts,
    "documents": document_texts,
}


@pytest.mark.parametrize("source", SOURCES)
def test_no_text_for_users_has_a_retired_phrase(source: str) -> None:
    texts = list(SOURCES[source]())
    assert len(texts) > 200, "the texts are found"
    assert {f"{place}: {text}": found for place, text in texts if (found := retired(text))} == {}


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("There is no queue named %(name)s.", "not found"),
        ("Jobs told to leave: %(victims)s.", "evict"),
        ("%(n)s cards are free", "GPU"),
        ("Nobody is limited", "all users"),
        ("The loan is ended.", "temporary quota"),
        ("请联系平台运维人员。", "平台管理员"),
        ("每个容器组 2 张卡", "Pod"),
    ],
)
def test_a_planted_phrase_is_found(text: str, instead: str) -> None:
    assert any(instead in found for found in retired(text))


def test_names_of_fields_are_no_phrases() -> None:
    assert retired("Set `gpu.cards` to %(cards)s, for example {cards: 4}.") == []
