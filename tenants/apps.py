from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """The app of accounts: tenants, users, members, access keys, and the rights of each."""

    name = "tenants"
    verbose_name = "Tenants"

    def ready(self) -> None:
        from tenants import wiring  # noqa: PLC0415 (models are loaded only from here on)

        wiring.connect_hooks()
