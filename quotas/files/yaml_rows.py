"""Reading quota files in YAML, each value with its line.

A block of `quotas` is for one tenant or queue, or for several (`tenants`). It names limits one by one, or
pools by the number of their GPUs, or both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from django.utils.translation import gettext as _

from foundation.core.bounded_parsing import (
    Listing,
    Node,
    ParseBounds,
    Scalar,
    TextError,
    YamlMapping,
    read_yaml,
)
from foundation.core.quantities import QuantityError, parse_cpu, parse_memory
from quotas.distribution.division import Keep
from quotas.files.rows import (
    LIMITS,
    UNLIMITED_WORD,
    Cell,
    FileProblems,
    PoolRow,
    PoolShare,
    Row,
    build_row,
    read_limit,
)

FILE_BOUNDS: Final = ParseBounds(size=256 * 1024, keys=50_000)
_BLOCK_FIELDS: Final = ("tenant", "queue", "tenants", "quotas", "pools")
_QUOTA_FIELDS: Final = ("cluster", "flavor", "resource", *LIMITS)
_IN_GPUS: Final = ("gpus", "borrowing_limit", "lending_limit")
_POOL_FIELDS: Final = (*_IN_GPUS, "cpu", "memory")
_LONGEST: Final = 40
Place = dict[str, Cell]
"""The fields `tenant` and `queue` of one node."""


def yaml_rows(text: str, problems: FileProblems) -> Iterator[Row]:
    """Yield the rows of a file in their order; errors are recorded in `problems`."""
    try:
        root = read_yaml(text, FILE_BOUNDS)
    except TextError as error:
        message = _("Invalid YAML: %(problem)s") % {"problem": error.message}
        problems.add_problem(error.line or 1, error.key, error.code, message)
        return
    if root is None:
        problems.add_problem(1, "", "EMPTY", _("The file is empty."))
        return
    fields = _fields(root, ("quotas",), problems)
    for block in _items(fields.get("quotas"), "quotas", root.line, problems):
        yield from _block_rows(block, problems)


def _block_rows(block: Node, problems: FileProblems) -> Iterator[Row]:
    """Yield the rows of a block. Each limit is read once, however many tenants the block is for."""
    of = _fields(block, _BLOCK_FIELDS, problems)
    limits: list[tuple[int, dict[str, Cell]]] = []
    if "quotas" in of or "pools" not in of:
        for quota in _items(of.get("quotas"), "quotas", block.line, problems):
            fields = _fields(quota, _QUOTA_FIELDS, problems)
            cells = {field: _cell(node, field, problems) for field, node in fields.items()}
            limits.append((quota.line, cells))
    pools = list(_pool_rows(of["pools"], problems)) if "pools" in of else []
    for place in _places(of, block, problems):
        for line, cells in limits:
            yield build_row(line, place | cells, problems)
        tenant, at = place.get("tenant", ("", block.line))
        if pools and not tenant.strip():
            problems.add_problem(at, "tenant", "REQUIRED", _("Required."))
        for pool in pools:
            queue = place.get("queue", ("", 0))[0]
            yield replace(pool, tenant=tenant.strip(), queue=queue.strip())


def _places(of: Mapping[str, Node], block: Node, problems: FileProblems) -> list[Place]:
    """Return the nodes of a block: `tenant` with its `queue`, or `tenants`, a queue as tenant/queue."""
    if "tenants" not in of:
        return [{field: _cell(of[field], field, problems) for field in ("tenant", "queue") if field in of}]
    for field in ("tenant", "queue"):
        if field in of:
            message = _("Specify either tenants, or one tenant and its queue.")
            problems.add_problem(of[field].line, field, "TWICE", message)
    places = []
    for node in _items(of["tenants"], "tenants", block.line, problems):
        text, line = _cell(node, "tenants", problems)
        tenant, _slash, queue = text.strip().partition("/")
        if not tenant:
            problems.add_problem(line, "tenants", "REQUIRED", _("Required."))
            continue
        places.append({"tenant": (tenant, line), "queue": (queue, line)})
    return places


def _pool_rows(pools: Node, problems: FileProblems) -> Iterator[PoolRow]:
    """Yield the pools of a block, still without a tenant."""
    if not isinstance(pools, YamlMapping):
        message = _("Must be a map of pools, for example h100: {gpus: 8}.")
        problems.add_problem(pools.line, "pools", "TYPE", message)
        return
    seen: set[str] = set()
    for key, value in pools.entries:
        if key.text in seen:
            problems.add_problem(key.line, key.text[:_LONGEST], "TWICE", _("Duplicate field."))
            continue
        seen.add(key.text)
        # `h100: 8` is short for `h100: {gpus: 8}`.
        nodes = {"gpus": value} if isinstance(value, Scalar) else _fields(value, _POOL_FIELDS, problems)
        yield _pool_row(key.text.strip(), key.line, nodes, problems)


def _pool_row(name: str, line: int, nodes: Mapping[str, Node], problems: FileProblems) -> PoolRow:
    cells = {field: _cell(node, field, problems) for field, node in nodes.items()}
    cluster, slash, flavor = name.partition("/")
    counts = {
        field: read_limit(cells[field][0], problems, cells[field][1], field) if field in cells else Keep.AS_IS
        for field in _IN_GPUS
    }
    return PoolRow(
        line=line,
        tenant="",
        queue="",
        cluster=cluster if slash else "",
        flavor=flavor if slash else cluster,
        gpus=counts["gpus"],
        borrowing_limit=counts["borrowing_limit"],
        lending_limit=counts["lending_limit"],
        cpu=_of_nodes(cells, "cpu", problems),
        memory=_of_nodes(cells, "memory", problems),
        lines={field: cell[1] for field, cell in cells.items()},
    )


def _of_nodes(cells: Mapping[str, Cell], field: str, problems: FileProblems) -> int | Keep | PoolShare | None:
    """Read CPU or memory: an amount with its unit, `unlimited`, or `nodes`."""
    text, line = cells.get(field, ("", 0))
    word = text.strip()
    if not word:
        return Keep.AS_IS
    if word.lower() == UNLIMITED_WORD:
        return None
    if word.lower() == PoolShare.OF_NODES.value:
        return PoolShare.OF_NODES
    amount = _amount(word, field)
    if amount is not None:
        return amount
    message = _('Invalid amount %(text)s. Enter cores (for example 64 or 500m), "unlimited" or "nodes".')
    if field == "memory":
        message = _(
            'Invalid amount %(text)s. Enter memory with its unit (for example 512Gi), "unlimited" or "nodes".'
        )
    problems.add_problem(line, field, "AMOUNT", message % {"text": repr(word[:_LONGEST])})
    return Keep.AS_IS


def _amount(word: str, field: str) -> int | None:
    """Return millicores or MiB, or None for a text that is no amount.

    Memory needs a unit: a bare number would mean bytes, which is almost certainly an error.
    """
    unitless = field == "memory" and word.isdigit() and word != "0"
    if unitless or not word.isascii() or len(word) > _LONGEST:
        return None
    try:
        return int(parse_cpu(word) if field == "cpu" else parse_memory(word))
    except QuantityError:
        return None


def _fields(node: Node, known: tuple[str, ...], problems: FileProblems) -> dict[str, Node]:
    """Return the values of a mapping by name; unknown and repeated names are recorded as problems."""
    if not isinstance(node, YamlMapping):
        message = _("Must be a map with these fields: %(known)s.") % {"known": ", ".join(known)}
        problems.add_problem(node.line, "", "TYPE", message)
        return {}
    found: dict[str, Node] = {}
    for key, value in node.entries:
        name = key.text[:60]
        if name not in known:
            message = _("Unknown field. Valid: %(known)s.") % {"known": ", ".join(known)}
            problems.add_problem(key.line, name, "UNKNOWN", message)
        elif name in found:
            problems.add_problem(key.line, name, "TWICE", _("Duplicate field."))
        else:
            found[name] = value
    return found


def _items(node: Node | None, field: str, line: int, problems: FileProblems) -> list[Node]:
    if isinstance(node, Listing):
        return node.values
    problems.add_problem(line if node is None else node.line, field, "TYPE", _("Must be a list."))
    return []


def _cell(node: Node, field: str, problems: FileProblems) -> Cell:
    if isinstance(node, Scalar):
        if node.is_null and field in (*LIMITS, *_POOL_FIELDS) and node.text:
            # `null` is ambiguous in a file (unlimited, none or unchanged), so a file has to write what it
            # means.
            problems.add_problem(node.line, field, "AMOUNT", _('Enter "unlimited", or omit the field.'))
        return "" if node.is_null else node.text, node.line
    problems.add_problem(node.line, field, "TYPE", _("Must be a single value."))
    return "", node.line
