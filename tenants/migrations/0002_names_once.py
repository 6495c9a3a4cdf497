from collections import defaultdict

from django.db import migrations


def rename_doubles(apps, schema_editor):
    """Siblings of one name get their slug behind it, all but the first: names become unique next."""
    Tenant = apps.get_model("tenants", "Tenant")
    groups = defaultdict(list)
    for tenant in Tenant.unscoped.order_by("created_at", "id"):
        groups[tenant.parent_id, tenant.name.casefold()].append(tenant)
    for doubles in groups.values():
        for tenant in doubles[1:]:
            tenant.name = f"{tenant.name[:54]} ({tenant.slug})"
            tenant.save(update_fields=["name"])


class Migration(migrations.Migration):

    dependencies = [("tenants", "0001_initial")]

    operations = [migrations.RunPython(rename_doubles, migrations.RunPython.noop)]
