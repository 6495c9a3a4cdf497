from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """The quota tree, queues, limits and the ledger of what is reserved."""

    name = "quotas"
    verbose_name = "Quotas"

    def ready(self) -> None:
        from quotas import wiring  # noqa: PLC0415 (as above)
        from quotas.services.tenant_tree import QuotaTreeWatcher  # noqa: PLC0415 (models are loaded only from here on)
        from tenants.hooks import tree_effects  # noqa: PLC0415 (as above)

        tree_effects.register_watcher("quotas", QuotaTreeWatcher())
        wiring.declare_own()
