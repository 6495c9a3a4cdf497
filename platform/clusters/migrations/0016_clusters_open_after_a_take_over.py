from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0015_foreign_pods_name_jobs'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='opens_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
