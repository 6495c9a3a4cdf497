"""An index of the roles that name GPU models, which are few: lists of jobs by model read no others."""

from django.db import migrations, models

from foundation.sql.online_index import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('scheduling', '0007_job_tag'),
    ]

    operations = [
        AddIndexOnline(
            model_name='jobrole',
            index=models.Index(condition=models.Q(('gpu_models', []), _negated=True), fields=['job'], name='role_with_models'),
        ),
    ]
