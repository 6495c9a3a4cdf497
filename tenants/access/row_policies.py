"""Row-level security on PostgreSQL: which rows of which table a request may read and change.

Each table that belongs to tenants gets a policy, derived from the models: a table with a column that names a
tenant follows that tenant; a table without one follows the row that it is part of. So a new model is covered
as soon as its table exists. A rule that cannot be derived is declared by the package of the model
(`declare_rule`).

`sync_policies` runs after `migrate`, changes policies that differ, and creates the role ALLOTMENT_WEB, which
web processes use: policies do not apply to superusers or to roles that bypass them. FORCE applies them to the
owner of the tables too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.apps import AppConfig, apps
from django.db import connections, models, transaction

from foundation.sql.row_scope import SCOPE, USER
from tenants.models import AccessKey, CustomRole, Member, Tenant, User

log = structlog.get_logger(__name__)

WEB_ROLE: Final = "allotment_web"
OWN_APPS: Final = (
    "foundation",
    "tenants",
    "clusters",
    "quotas",
    "scheduling",
    "telemetry",
    "alerts",
    "frontend",
)
_READ: Final = frozenset({"SELECT"})
_READ_AND_WRITE: Final = _READ | {"INSERT", "UPDATE", "DELETE"}
_LIMITED: Final = {
    "foundation_auditrecord": _READ | {"INSERT"},
    "foundation_auditseal": _READ,  # workers seal
    # Only the platform writes the id.
    "foundation_installation": _READ | {"UPDATE (setup_dismissed_at, name, logo, logo_type, logo_mark)"},
    "django_content_type": _READ,
    "django_migrations": _READ,
    "auth_permission": _READ,
    "auth_group_permissions": _READ,
}
"""Privileges of the role on tables that requests change in part or not at all; it has all four on others."""
_NAMES: Final = frozenset({"tenant_id", "workspace_id"})
"""Columns that name a tenant without a foreign key."""

_SEES_ALL: Final = f"coalesce(current_setting('{SCOPE}', true), '') = 'all'"
_LISTED: Final = 64
"""The maximum number of tenants at or below a user's roles that are listed once per statement. If there are
more, each row looks its tenant up.
"""
_FUNCTIONS: Final = f"""
CREATE OR REPLACE FUNCTION allotment_sees_all() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT {_SEES_ALL} $$;
CREATE OR REPLACE FUNCTION allotment_paths() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN current_setting('{SCOPE}', true) LIKE '{{%' THEN current_setting('{SCOPE}', true)::text[]
   ELSE ARRAY[]::text[] END $$;
CREATE OR REPLACE FUNCTION allotment_tenants() RETURNS uuid[] LANGUAGE plpgsql STABLE PARALLEL SAFE AS
$$ BEGIN RETURN ARRAY(
   WITH RECURSIVE below(id) AS (
       SELECT split_part(rtrim(p, '/'), '/', -1)::uuid FROM unnest(allotment_paths()) p
       UNION ALL SELECT t.id FROM {Tenant._meta.db_table} t JOIN below b ON t.parent_id = b.id)
   SELECT id FROM below LIMIT {_LISTED}); END $$;
CREATE OR REPLACE FUNCTION allotment_below(tenant uuid) RETURNS boolean LANGUAGE plpgsql STABLE COST 1
PARALLEL SAFE AS $$ BEGIN RETURN EXISTS (
   SELECT 1 FROM {Tenant._meta.db_table} t WHERE t.id = tenant AND t.path ^@ ANY (allotment_paths())); END $$;
CREATE OR REPLACE FUNCTION allotment_line() RETURNS uuid[] LANGUAGE plpgsql STABLE PARALLEL SAFE AS
$$ BEGIN RETURN ARRAY(
   SELECT DISTINCT id::uuid FROM unnest(allotment_paths()) p, unnest(string_to_array(trim(p, '/'), '/')) id
   ); END $$;
CREATE OR REPLACE FUNCTION allotment_user() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT nullif(current_setting('{USER}', true), '')::uuid $$;
"""
# Sub-selects without a column of the row are evaluated once per statement. Functions in PL/pgSQL are never
# inlined into a statement, so planning the statement does not plan them again; their own plans are cached.
# The look-up is declared cheap because it rarely runs, and the cost would count for every row of an estimate.
_BELOW: Final = (
    "({column} = ANY ((SELECT allotment_tenants())::uuid[]) OR "
    f"(SELECT cardinality(allotment_tenants()) = {_LISTED}) AND allotment_below({{column}}))"
)
_ABOVE: Final = "{column} = ANY ((SELECT allotment_line())::uuid[])"


@dataclass(frozen=True, slots=True)
class Rule:
    """Conditions in SQL on a row: `change` to change it, `read` to read it in addition to rows that may be
    changed, and `append` to add it where no request may change it.
    """

    change: str
    read: str = ""
    append: str = ""


_declared: dict[str, Rule] = {}
_reads_above: set[str] = set()


def declare_rule(model: type[models.Model], rule: Rule) -> None:
    """Set the rule of a model; called once from the owner's `AppConfig.ready()`."""
    _declared[model._meta.label] = rule


def reads_above(*kinds: type[models.Model]) -> None:
    """Let a tenant read rows of these models that belong to the folders above it, because they apply to it
    too.
    """
    _reads_above.update(kind._meta.label for kind in kinds)


def all_rules() -> dict[type[models.Model], Rule]:
    """Return the rule of every model that belongs to tenants."""
    own = [model for model in apps.get_models() if model._meta.app_label in OWN_APPS]
    found = {model: rule for model in own if (rule := _direct(model)) is not None}
    while True:
        more = {model: rule for model in own if model not in found and (rule := _part(model, found))}
        if not more:
            return found
        found |= more


def _direct(model: type[models.Model]) -> Rule | None:
    declared = _declared.get(model._meta.label)
    if declared is not None:
        return declared
    columns = [str(field.column) for field in model._meta.concrete_fields if _names_tenant(field)]
    if not columns:
        return None
    read = _any_of(columns, _ABOVE) if model._meta.label in _reads_above else ""
    return Rule(_any_of(columns, _BELOW), read)


def _names_tenant(field: models.Field[Any, Any]) -> bool:
    return field.related_model is Tenant or (
        field.column in _NAMES and not field.is_relation and isinstance(field, models.UUIDField)
    )


def _any_of(columns: list[str], condition: str) -> str:
    return "(" + " OR ".join(condition.format(column=f"{{row}}.{column}") for column in columns) + ")"


def _part(model: type[models.Model], found: dict[type[models.Model], Rule]) -> Rule | None:
    """Return the rule of a row that refers to other rows: its first reference that is required names its
    owner.
    """
    for field in model._meta.concrete_fields:
        whole: Any = field.related_model
        if field.null or whole in (None, "self", model, User) or whole not in found:
            continue
        # The policy of that table applies within the condition, for reads and for changes.
        of = f"{whole._meta.db_table} w WHERE w.{whole._meta.pk.column} = {{row}}.{field.column}"
        return Rule(f"EXISTS (SELECT 1 FROM {of})")
    return None


def _policies(model: type[models.Model], rule: Rule) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each policy of a table."""
    table = model._meta.db_table

    def policy_when(condition: str) -> str:
        return f"((SELECT {_SEES_ALL}) OR {condition.replace('{row}', table)})"

    change = policy_when(rule.change)
    if rule.append:
        yield f"{table}_read", f"FOR SELECT USING {change}"
        yield f"{table}_append", f"FOR INSERT WITH CHECK {policy_when(rule.append)}"
        yield f"{table}_change", "FOR UPDATE USING (allotment_sees_all())"
        yield f"{table}_remove", "FOR DELETE USING (allotment_sees_all())"
        return
    yield f"{table}_change", f"FOR ALL USING {change} WITH CHECK {change}"
    if rule.read:
        yield f"{table}_read", f"FOR SELECT USING ({rule.read.replace('{row}', table)})"


def last_app() -> AppConfig:
    """Return the last of our apps that has models."""
    return [app for app in apps.get_app_configs() if app.name in OWN_APPS and app.models_module][-1]


def sync_policies(using: str) -> None:
    """Create or change policies and the role as declared. Does nothing on SQLite."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    tables = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        cursor.execute(_FUNCTIONS)
        for model, rule in sorted(all_rules().items(), key=lambda item: item[0]._meta.db_table):
            if model._meta.db_table in tables:  # an earlier state of the migrations may lack it
                # One transaction: between dropping and creating a policy, web processes would see no row of
                # the table.
                with transaction.atomic(using):
                    _protect(cursor, model._meta.db_table, dict(_policies(model, rule)))
        _ensure_role(cursor)


def _protect(cursor: Any, table: str, wanted: dict[str, str]) -> None:
    cursor.execute(
        "SELECT polname, obj_description(oid, 'pg_policy') FROM pg_policy WHERE polrelid = %s::regclass",
        [table],
    )
    if dict(cursor.fetchall()) == wanted:
        return
    cursor.execute("SELECT polname FROM pg_policy WHERE polrelid = %s::regclass", [table])
    for (name,) in cursor.fetchall():
        cursor.execute(f'DROP POLICY "{name}" ON "{table}"')
    for name, text in wanted.items():
        cursor.execute(f'CREATE POLICY "{name}" ON "{table}" {text}')
        cursor.execute(f'COMMENT ON POLICY "{name}" ON "{table}" IS %s', [text])
    cursor.execute(f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY')
    cursor.execute(f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY')


def _ensure_role(cursor: Any) -> None:
    """Create the role for SET ROLE, unless it exists (as a login, too) or we may not; grant it privileges."""
    cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [WEB_ROLE])
    if cursor.fetchone() is None:
        cursor.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        if not cursor.fetchone()[0]:
            log.warning("no role for web processes", role=WEB_ROLE, why="this role may not create roles")
            return
        # Two installations on one server may do this at the same time.
        cursor.execute(
            f"DO $$ BEGIN CREATE ROLE {WEB_ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS; "
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
        cursor.execute(f"GRANT {WEB_ROLE} TO current_user")
    cursor.execute(f"GRANT USAGE ON SCHEMA public TO {WEB_ROLE}")
    cursor.execute(f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {WEB_ROLE}")
    _grant_tables(cursor)


def _grant_tables(cursor: Any) -> None:
    """Grant the role its privileges on each table, and revoke those that it should not have.

    A table with the right privileges is not touched: a running web process must never be without its
    privileges.
    """
    cursor.execute(
        "SELECT c.relname, array_remove(array_agg(a.privilege_type), NULL)"
        " FROM pg_class c LEFT JOIN LATERAL aclexplode(c.relacl) a"
        " ON a.grantee = (SELECT oid FROM pg_roles WHERE rolname = %s)"
        " WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace GROUP BY c.relname",
        [WEB_ROLE],
    )
    for table, has_grant in cursor.fetchall():
        wanted = _LIMITED.get(table, _READ_AND_WRITE)
        if missing := wanted - set(has_grant):
            cursor.execute(f'GRANT {", ".join(sorted(missing))} ON "{table}" TO {WEB_ROLE}')
        if surplus := set(has_grant) - wanted:
            cursor.execute(f'REVOKE {", ".join(sorted(surplus))} ON "{table}" FROM {WEB_ROLE}')


def declare_own() -> None:
    """Declare the rules of this package and of the foundation that cannot be derived from the models."""
    below = "{row}.path ^@ ANY ((SELECT allotment_paths())::text[])"
    declare_rule(Tenant, Rule(below, _any_of(["id"], _ABOVE)))
    declare_rule(
        User, Rule(f"({{row}}.home_id IS NULL OR {_any_of(['home_id'], _BELOW)})")
    )  # users have no home tenant
    of_service = (
        f"EXISTS (SELECT 1 FROM {User._meta.db_table} u WHERE u.id = {{row}}.user_id AND "
        f"{_BELOW.format(column='u.home_id')})"
    )
    declare_rule(AccessKey, Rule(f"({{row}}.user_id = (SELECT allotment_user()) OR {of_service})"))
    keys = apps.get_model("foundation", "IdempotencyKey")
    declare_rule(keys, Rule(f"({{row}}.scope = (SELECT allotment_user()) OR {_any_of(['scope'], _BELOW)})"))
    audit = apps.get_model("foundation", "AuditRecord")
    # Any request may add records: a refused access to a tenant out of sight is recorded with that tenant.
    declare_rule(audit, Rule(_any_of(["tenant_id"], _BELOW), append="true"))
    reads_above(Member, CustomRole)
