"""An index of the unfinished jobs with volumes, which are few: clusters are asked for their claims."""

from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("scheduling", "0013_mounted_claim"),
    ]

    operations = [
        AddIndexOnline(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    models.Q(("state__in", ("succeeded", "failed", "cancelled")), _negated=True),
                    models.Q(("volumes", []), _negated=True),
                ),
                fields=["queue"],
                name="job_with_volumes",
            ),
        ),
    ]
