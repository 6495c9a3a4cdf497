"""The time by which a queue orders a job that changed places with another one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0011_jobs_by_part_of_name"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="order_at",
            field=models.DateTimeField(
                blank=True,
                help_text="its time in the queue's order, if it is another than its submission",
                null=True,
            ),
        ),
    ]
