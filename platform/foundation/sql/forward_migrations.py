"""Forward migrations that render the models of a new table once.

Django keeps a class of each model for every state between two migrations. For a new table it renders all
related models again, which are nearly all, for older states that no forward migration reads. That took five
of eight seconds of the first start.
"""

from __future__ import annotations

from typing import Any

from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ModelState, ProjectState


class ForwardState(ProjectState):
    """A state to which a new model is added without rendering related models again.

    Statements see all fields and relations; only reverse relations are missing, which Django calls delayed.
    """

    def add_model(self, model_state: ModelState) -> None:
        key = model_state.app_label, model_state.name_lower
        self.models[key] = model_state
        if self._relations is not None:  # type: ignore[attr-defined]  # not in the published types
            self.resolve_model_relations(key)
        if "apps" in self.__dict__:  # reading the property would render all
            self.apps.render_multiple([model_state])
            self.is_delayed = True  # code of a migration first renders all models


class ForwardExecutor(MigrationExecutor):
    """Django's executor; backward migrations keep a state for each step."""

    def _migrate_all_forwards(self, state: ProjectState, *plan: Any, **options: Any) -> ProjectState:
        forward = ForwardState(state.models, state.real_apps)
        migrated: ProjectState = super()._migrate_all_forwards(forward, *plan, **options)  # type: ignore[misc]
        return migrated
