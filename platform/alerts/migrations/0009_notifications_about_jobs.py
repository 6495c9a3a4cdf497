"""Notifications are about an alert or a watched job."""

import django.db.models.deletion
from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = (
    "Old processes write notifications about alerts alone, which the constraints allow. One about a job exists "
    "only after a channel was told to send them by a new process; an old worker fails on it, and a new one sends it."
)


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0008_channels_send_job_watches'),
        ('scheduling', '0012_job_order_at'),
    ]

    operations = [
        migrations.AddField(
            model_name='notification',
            name='job',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduling.job'),
        ),
        migrations.AlterField(
            model_name='notification',
            name='alert',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='alerts.alert'),
        ),
        migrations.AlterField(
            model_name='notification',
            name='event',
            field=models.CharField(choices=[('firing', 'Firing'), ('reminder', 'Reminder'), ('resolved', 'Resolved'), ('started', 'Started'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('cancelled', 'Canceled')], max_length=10),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.UniqueConstraint(condition=models.Q(('job__isnull', False)), fields=('channel', 'job', 'event'), name='job_notification_once'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('alert__isnull', False), ('job__isnull', True)), models.Q(('alert__isnull', True), ('job__isnull', False)), _connector='OR'), name='notification_of_alert_or_job'),
        ),
    ]
