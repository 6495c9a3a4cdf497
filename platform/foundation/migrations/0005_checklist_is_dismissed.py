"""The checklist of the first steps can be put away for the whole installation."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("foundation", "0004_measures")]

    operations = [
        migrations.AddField(
            "installation", "setup_dismissed_at", models.DateTimeField(blank=True, null=True)
        ),
    ]
