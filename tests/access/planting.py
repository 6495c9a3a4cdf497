"""Removes single permission checks while the platform runs: a pytest plugin (`-p tests.access.planting`).

It must be loaded before the platform's packages: it changes their sources at import, so that each check asks
this module whether it applies. A check is named by its function, what it calls and its place among the same
calls in that function (`quotas.services.budget:_require:has_permission:1`), which survives edits of other
functions.

It can remove calls of functions that refuse or that compute what a user may see, refusals in the code itself,
conditions that bind a look-up to a tenant or an account, decorators of pages, and the scope that a key
needs for each view and method.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final

PACKAGES: Final = (
    "foundation",
    "tenants",
    "clusters",
    "quotas",
    "scheduling",
    "telemetry",
    "alerts",
    "frontend",
    "allotment",
)
REFUSING: Final = frozenset(
    {
        "require_permission", "require_cover", "require_over", "require_above_workspaces",
        "require_decider", "require_edit", "require_view", "require_stop", "require_manage",
        "scope_require", "require_password_chosen", "_require", "require_account", "_require_owner",
        "_require_above", "_require_all", "_require_one", "_require_claim",
    }
)  # fmt: skip
ALLOWING: Final = frozenset({"has_permission", "has_above_workspaces", "is_over"})
GIVING: Final = frozenset({"permissions_on", "permissions_anywhere"})
SHOWING: Final = frozenset(
    {"visible_tenants", "visible_workspaces", "visible_workspace_ids", "tenants_with", "quota_tenants"}
)
_BINDING: Final = frozenset(
    {
        "tenant", "workspace", "user", "home", "tenant_id", "workspace_id", "user_id", "tenant__in",
        "workspace__in", "user_id__in",
    }
)  # fmt: skip
_BOUND_IN: Final = ("selectors", "api", "pages")
"""Packages whose look-ups by tenant limit what a user sees; in services such a look-up checks nothing."""
_DECORATORS: Final = frozenset({"login_required", "operator_required"})
_PURE: Final = ("scheduling.engine", "quotas.tree")
"""Packages without accounts."""

SITES: Final[set[str]] = set()
"""Every check that was found."""
_met: Final[set[str]] = set()
_gone: Final[set[str]] = set()
_only: Final[list[str]] = []
_WHOLE: Final = "*"


@contextmanager
def without(*sites: str) -> Iterator[None]:
    """Remove these checks within the block."""
    _gone.update(sites)
    try:
        yield
    finally:
        _gone.difference_update(sites)


@contextmanager
def without_any_but(site: str) -> Iterator[None]:
    """Remove every check that refuses except one within the block; all of them for an empty name."""
    _only.append(site)
    try:
        yield
    finally:
        _only.pop()


def refuses(site: str) -> bool:
    """Return whether a check refuses; other checks only limit how much is shown."""
    name = site.split(":")[2]
    return name in REFUSING | ALLOWING or name == "refusal" or name.startswith("scope of ")


def met() -> frozenset[str]:
    """Return the checks that ran since the last call."""
    found = frozenset(_met)
    _met.clear()
    return found


def _applies(site: str) -> bool:
    _met.add(site)
    if _only and _only[-1] not in (site, _WHOLE) and refuses(site) and not _encloses(site, _only[-1]):
        return False
    return site not in _gone


def _encloses(site: str, inner: str) -> bool:
    """Return whether a check is the call of the function that contains another check."""
    return inner.count(":") == 3 and site.split(":")[2] == inner.split(":")[1].rpartition(".")[2]


@contextmanager
def _as_a_whole(site: str) -> Iterator[None]:
    """Keep, with the only check that is left, also the checks within it."""
    whole = bool(_only) and _only[-1] == site
    if whole:
        _only.append(_WHOLE)
    try:
        yield
    finally:
        if whole:
            _only.pop()


def _call(site: str, function: Callable[..., Any], *args: Any, **values: Any) -> Any:
    if _applies(site):
        with _as_a_whole(site):
            return function(*args, **values)
    name = site.split(":")[2]
    if name in REFUSING:
        return None
    return True if name in ALLOWING else _everything(name)


def _everything(name: str) -> Any:
    points, models = sys.modules["tenants.access.permission_points"], sys.modules["tenants.models"]
    if name in GIVING:
        return frozenset(points.Permission)
    rows = models.Tenant.unscoped.all()
    if name.startswith("visible_workspace"):
        rows = rows.filter(kind=models.TenantKind.WORKSPACE).order_by("name", "id")
    return rows.values_list("id", flat=True) if name.endswith("_ids") else rows


def _kept(site: str, name: str, value: Any) -> dict[str, Any]:
    # An empty condition would mean nothing beside another one; this one is always true.
    return {name: value} if _applies(site) else {"pk__isnull": False}


def _decorated(site: str, decorator: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        guarded = decorator(view)

        @wraps(view)
        def choose(*args: Any, **values: Any) -> Any:
            return (guarded if _applies(site) else view)(*args, **values)

        return choose

    return decorate


class _Planter(ast.NodeTransformer):
    """Adds a question in front of each check of one module."""

    def __init__(self, module: str) -> None:
        self._module, self._path = module, [""]
        self._counts: dict[tuple[str, str], int] = {}
        self._binds = any(f".{part}." in f"{module}." for part in _BOUND_IN)

    def _site(self, name: str) -> str:
        where = self._path[-1]
        number = self._counts[where, name] = self._counts.get((where, name), 0) + 1
        site = f"{self._module}:{where}:{name}:{number}"
        SITES.add(site)
        return site

    def _within(self, node: Any) -> Any:
        self._path.append(f"{self._path[-1]}.{node.name}".lstrip("."))
        self.generic_visit(node)
        self._path.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return self._within(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        found = self._within(node)
        if ".pages." in f".{self._module}.":
            found.decorator_list = [self._decorator(node, each) for each in found.decorator_list]
        return found

    def _decorator(self, node: ast.FunctionDef, decorator: ast.expr) -> ast.expr:
        if not isinstance(decorator, ast.Name) or decorator.id not in _DECORATORS:
            return decorator
        site = f"{self._module}:{node.name}:{decorator.id}:1"
        SITES.add(site)
        return _asked("_access_decorated", site, decorator)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in REFUSING | ALLOWING | GIVING | SHOWING:
            asked = _asked("_access_call", self._site(name), node.func)
            return ast.Call(asked.func, [*asked.args, *node.args], node.keywords)
        looks_up = name in ("filter", "get") and isinstance(node.func, ast.Attribute)
        if self._binds and (looks_up or name == "Q"):
            node.keywords = [self._binding(keyword) for keyword in node.keywords]
        return node

    def _binding(self, keyword: ast.keyword) -> ast.keyword:
        name = keyword.arg or ""
        if not any(name == end or name.endswith(f"__{end}") for end in _BINDING):
            return keyword
        return ast.keyword(
            None, _asked("_access_kept", self._site(f"by {name}"), ast.Constant(name), keyword.value)
        )

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        raised = [part.exc for part in node.body if isinstance(part, ast.Raise)]
        names = [getattr(each, "func", each) for each in raised]
        if any(getattr(name, "attr", getattr(name, "id", "")) == "PermissionDenied" for name in names):
            applies = _asked("_access_applies", self._site("refusal"))
            node.test = ast.BoolOp(ast.And(), [node.test, applies])
        return node


def _asked(helper: str, site: str, *more: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(helper, ast.Load()), [ast.Constant(site), *more], [])


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        # The cached bytecode is that of the unchanged platform.
        return self.source_to_code(self.get_data(self.path), self.path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree = _Planter(self.name).visit(ast.parse(data))
        code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec")
        return code


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.split(".")[0] not in PACKAGES or ".migrations" in fullname:
            return None
        if fullname.startswith(_PURE):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def plant_scopes(permission: Any) -> None:
    """Make the scope of each view and method, which `permission` checks, removable by itself."""
    before = permission.has_permission

    def has_permission(self: Any, request: Any, view: Any) -> bool:
        site = f"{type(view).__module__}:{type(view).__name__}:scope of {request.method}:1"
        SITES.add(site)
        if not _applies(site):
            return True
        with _as_a_whole(site):
            return bool(before(self, request, view))

    permission.has_permission = has_permission


def plant_kept(kept: Any) -> None:
    """Build every query that `Kept` caches anew for each call, so that a check within it asks this module."""
    call = kept.__call__

    def anew(self: Any, *values: Any) -> Any:
        self._written.clear()
        return call(self, *values)

    kept.__call__ = anew


for _name, _helper in {"call": _call, "kept": _kept, "applies": _applies, "decorated": _decorated}.items():
    setattr(builtins, f"_access_{_name}", _helper)
if any(name in sys.modules for name in PACKAGES):
    raise ImportError("the platform is imported already: name this plugin first on the command line")
sys.meta_path.insert(0, _Finder())
