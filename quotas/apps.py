from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """Who may hold how much: the quota tree, queues, limits and the ledger."""

    name = "quotas"
    verbose_name = "Quotas"
