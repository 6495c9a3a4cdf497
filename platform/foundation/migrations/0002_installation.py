"""The id of this installation, made once with its row."""

import uuid

import django.db.models.manager
from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = "the code adds one row to a table that old processes do not know"


def make(apps, schema_editor):
    apps.get_model("foundation", "Installation").unscoped.get_or_create(number=1)


class Migration(migrations.Migration):
    dependencies = [("foundation", "0001_tables")]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                ("number", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
            ],
            options={
                "default_manager_name": "unscoped",
                "base_manager_name": "unscoped",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("number", 1)), name="installation_is_one")
                ],
            },
            managers=[("unscoped", django.db.models.manager.Manager())],
        ),
        migrations.RunPython(make, migrations.RunPython.noop),
    ]
