"""The permissions that the platform's account lacks in a cluster."""


from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0004_node_events_by_time'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='missing_permissions',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
        migrations.AddField(
            model_name='cluster',
            name='permissions_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
