from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """Who may hold how much: the quota tree, queues, limits and the ledger."""

    name = "quotas"
    verbose_name = "Quotas"

    def ready(self) -> None:
        from quotas import row_rules  # noqa: PLC0415 (as above)
        from quotas.tenant_tree import QuotaTreeWatcher  # noqa: PLC0415 (models are loaded only from here on)
        from tenants import effects  # noqa: PLC0415 (as above)

        effects.register("quotas", QuotaTreeWatcher())
        row_rules.declare_own()
