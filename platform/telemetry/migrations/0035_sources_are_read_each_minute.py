from django.db import migrations
from django.db.models import Model

SAFE_BESIDE_OLD_CODE = "An interval of 60 seconds was allowed before; old code reads these sources more often."


def shorten(apps, schema_editor):
    source: type[Model] = apps.get_model("telemetry", "TelemetrySource")
    source._base_manager.filter(every_s__gt=60).update(every_s=60)


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0034_failures_of_roll_ups'),
    ]

    operations = [
        migrations.RunPython(shorten, migrations.RunPython.noop),
    ]
