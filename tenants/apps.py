from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Who there is: tenants, users, members, access keys, and what each may do."""

    name = "tenants"
    verbose_name = "Tenants"
