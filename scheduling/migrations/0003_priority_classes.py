"""Every installation has the three usual priority classes; `high` has to be granted."""

from django.db import migrations

CLASSES = (("low", -50), ("normal", 0), ("high", 100))


def add(apps, schema_editor):
    priority_class = apps.get_model("scheduling", "PriorityClass")
    for name, value in CLASSES:
        priority_class._base_manager.get_or_create(name=name, defaults={"value": value})


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0002_initial")]

    operations = [migrations.RunPython(add, migrations.RunPython.noop)]
