import django.core.validators
import django.db.models.deletion
import django.db.models.manager
import foundation.core.identifiers
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('alerts', '0001_tables'),
    ]

    initial = True

    dependencies = [
        ('clusters', '0001_schema'),
        ('tenants', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='AlertRule',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alert_rules', to='tenants.tenant')),
                ('cluster', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alert_rules', to='clusters.cluster')),
                ('name', models.CharField(max_length=100)),
                ('metric', models.CharField(max_length=60)),
                ('comparison', models.CharField(choices=[('above', 'above'), ('below', 'below')], default='above', max_length=5)),
                ('threshold', models.FloatField()),
                ('hold_s', models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(604800)])),
                ('resolve_s', models.PositiveIntegerField(default=120, validators=[django.core.validators.MaxValueValidator(604800)])),
                ('repeat_s', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MaxValueValidator(604800)])),
                ('severity', models.CharField(choices=[('critical', 'Critical'), ('warning', 'Warning'), ('info', 'Info')], default='warning', max_length=10)),
                ('enabled', models.BooleanField(default=True)),
                ('evaluated_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.CharField(blank=True, choices=[('unreadable', "The metric couldn't be read."), ('too-many', 'More than 1,000 subjects meet the condition. The others have no alert.')], default='', max_length=20)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('tenant__isnull', True)), fields=('name',), name='alert_rule_name_once_on_platform'), models.UniqueConstraint(fields=('tenant', 'name'), name='alert_rule_name_once_per_tenant')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('rule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='alerts', to='alerts.alertrule')),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='tenants.tenant')),
                ('cluster_id', models.UUIDField(blank=True, null=True)),
                ('rule_name', models.CharField(max_length=100)),
                ('metric', models.CharField(max_length=60)),
                ('comparison', models.CharField(choices=[('above', 'above'), ('below', 'below')], max_length=5)),
                ('threshold', models.FloatField()),
                ('severity', models.CharField(choices=[('critical', 'Critical'), ('warning', 'Warning'), ('info', 'Info')], max_length=10)),
                ('subject', models.CharField(max_length=200)),
                ('label', models.CharField(max_length=300)),
                ('path', models.CharField(blank=True, default='', max_length=300)),
                ('value', models.FloatField(null=True)),
                ('state', models.CharField(choices=[('pending', 'Not yet firing'), ('firing', 'Firing'), ('resolved', 'Resolved')], default='pending', max_length=10)),
                ('started_at', models.DateTimeField()),
                ('fired_at', models.DateTimeField(blank=True, null=True)),
                ('resolved_at', models.DateTimeField(blank=True, null=True)),
                ('clear_since', models.DateTimeField(blank=True, null=True)),
                ('suppressed', models.CharField(blank=True, default='', max_length=10)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['state', '-started_at'], name='alert_by_state_and_time'), models.Index(fields=['tenant', 'state', '-started_at'], name='alert_by_tenant_and_time')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'resolved'), _negated=True), fields=('rule', 'subject'), name='alert_once_per_subject')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='NotificationChannel',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notification_channels', to='tenants.tenant')),
                ('name', models.CharField(max_length=100)),
                ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('email', 'Email (SMTP)'), ('wecom', 'WeCom'), ('dingtalk', 'DingTalk'), ('lark', 'Lark')], max_length=10)),
                ('sealed_address', models.TextField()),
                ('sealed_secret', models.TextField(blank=True, default='')),
                ('language', models.CharField(default='en', max_length=10)),
                ('enabled', models.BooleanField(default=True)),
                ('sending_until', models.DateTimeField(blank=True, null=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('retry_at', models.DateTimeField(blank=True, null=True)),
                ('failing_since', models.DateTimeField(blank=True, null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('error', models.CharField(blank=True, default='', max_length=300)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('tenant__isnull', True)), fields=('name',), name='channel_name_once_on_platform'), models.UniqueConstraint(fields=('tenant', 'name'), name='channel_name_once_per_tenant')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='alerts.notificationchannel')),
                ('alert', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='alerts.alert')),
                ('event', models.CharField(choices=[('firing', 'Firing'), ('reminder', 'Reminder'), ('resolved', 'Resolved')], max_length=10)),
                ('number', models.PositiveIntegerField(default=0)),
                ('value', models.FloatField(null=True)),
                ('state', models.CharField(choices=[('pending', 'Unsent'), ('sent', 'Sent')], default='pending', max_length=10)),
                ('message_id', models.CharField(blank=True, default='', max_length=64)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(condition=models.Q(('state', 'pending')), fields=['channel', 'created_at'], name='notification_pending')],
                'constraints': [models.UniqueConstraint(fields=('channel', 'alert', 'event', 'number'), name='notification_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='RuleChannel',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='alerts.alertrule')),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='alerts.notificationchannel')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('rule', 'channel'), name='rule_channel_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Silence',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='silences', to='tenants.tenant')),
                ('rule', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='silences', to='alerts.alertrule')),
                ('severity', models.CharField(blank=True, choices=[('critical', 'Critical'), ('warning', 'Warning'), ('info', 'Info')], default='', max_length=10)),
                ('subject', models.CharField(blank=True, default='', max_length=300)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('comment', models.CharField(blank=True, default='', max_length=300)),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='silences', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='silence_ends_later')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddField(
            model_name='alertrule',
            name='channels',
            field=models.ManyToManyField(blank=True, related_name='rules', through='alerts.RuleChannel', to='alerts.notificationchannel'),
        ),
    ]
