"""Models of a state that goes forward are the models that Django renders for it."""

from __future__ import annotations

from typing import Any

from django.apps.registry import Apps
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState

from foundation.sql.forward_migrations import ForwardState


def shown(apps: Apps) -> dict[str, Any]:
    """The fields of each model, and by which fields of others it is reached."""
    return {
        model._meta.label: (
            sorted(f"{field.name}: {type(field).__name__}" for field in model._meta.get_fields()),
            sorted(
                f"{relation.related_model._meta.label}.{relation.field.name} as {relation.name}"
                for relation in model._meta.related_objects
            ),
        )
        for model in apps.get_models(include_auto_created=True)
    }


def test_models_on_the_way_are_those_that_are_rendered_afresh() -> None:
    executor = MigrationExecutor(None)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    state: ProjectState = ForwardState()
    shown(state.apps)
    for step, (migration, _backwards) in enumerate(plan, start=1):
        state = migration.mutate_state(state, preserve=False)
        if step in (len(plan) // 2, len(plan)):
            assert shown(state.apps) == shown(ProjectState(state.models, state.real_apps).apps), migration
    assert len(shown(state.apps)) > 100
    state.clear_delayed_apps_cache()  # as Django does before the code of a migration and after the last
    assert hasattr(state.apps.get_model("tenants", "Tenant"), "queues")
