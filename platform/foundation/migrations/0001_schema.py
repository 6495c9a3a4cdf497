import django.db.models.manager
import foundation.core.identifiers
import rest_framework.utils.encoders
import uuid
from django.db import migrations, models


TABLES = ("foundation_auditrecord", "foundation_auditseal")
REFUSE = """
CREATE FUNCTION foundation_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
"""
PROTECT = """
CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION foundation_append_only();
CREATE TRIGGER {table}_not_emptied BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION foundation_append_only();
"""
RELEASE = """
DROP TRIGGER {table}_append_only ON {table};
DROP TRIGGER {table}_not_emptied ON {table};
"""


def protect_audit(apps, schema_editor):
    """SQLite is left alone: whoever can write its file can write anything."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(REFUSE + "".join(PROTECT.format(table=table) for table in TABLES), params=None)


def release_audit(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("".join(RELEASE.format(table=table) for table in TABLES), params=None)
        schema_editor.execute("DROP FUNCTION foundation_append_only()", params=None)


def add_installation(apps, schema_editor):
    """The row whose id names this installation."""
    apps.get_model("foundation", "Installation").unscoped.get_or_create(number=1)


class Migration(migrations.Migration):

    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('foundation', '0001_tables'),
        ('foundation', '0002_installation'),
        ('foundation', '0003_audit_seals_are_keyed'),
        ('foundation', '0004_measures'),
        ('foundation', '0005_checklist_is_dismissed'),
    ]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('name', models.CharField(max_length=60, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='AuditRecord',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('actor_id', models.UUIDField(db_index=True, null=True)),
                ('actor_name', models.CharField(max_length=150)),
                ('action', models.CharField(db_index=True, max_length=80)),
                ('entity', models.CharField(max_length=60)),
                ('entity_id', models.CharField(db_index=True, max_length=64)),
                ('tenant_id', models.UUIDField(db_index=True, null=True)),
                ('before', models.JSONField(default=dict)),
                ('after', models.JSONField(default=dict)),
                ('result', models.CharField(default='done', max_length=20)),
                ('address', models.CharField(blank=True, default='', max_length=64)),
                ('request_id', models.CharField(blank=True, default='', max_length=64)),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['-created_at', '-id'], name='audit_by_time'), models.Index(fields=['tenant_id', '-created_at', '-id'], name='audit_of_tenant_by_time')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='AuditSeal',
            fields=[
                ('number', models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ('record_id', models.UUIDField(unique=True)),
                ('hash', models.CharField(max_length=64)),
                ('key_id', models.CharField(db_default='', max_length=8)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.CheckConstraint(condition=models.Q(('key_id', ''), _negated=True), name='audit_seal_is_keyed')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Hint',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('topic', models.CharField(max_length=40)),
                ('key', models.CharField(max_length=64)),
                ('not_before', models.DateTimeField()),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['not_before'], name='foundation__not_bef_8cbadb_idx')],
                'constraints': [models.UniqueConstraint(fields=('topic', 'key'), name='hint_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('scope', models.UUIDField()),
                ('route', models.CharField(max_length=120)),
                ('key', models.CharField(max_length=255)),
                ('fingerprint', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(default=0)),
                ('headers', models.JSONField(default=dict)),
                ('body', models.JSONField(encoder=rest_framework.utils.encoders.JSONEncoder, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['created_at'], name='idempotent_request_age')],
                'constraints': [models.UniqueConstraint(fields=('scope', 'route', 'key'), name='idempotent_request_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('number', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('uuid', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('setup_dismissed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.CheckConstraint(condition=models.Q(('number', 1)), name='installation_is_one')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Measure',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('labels', models.CharField(max_length=400)),
                ('le', models.CharField(blank=True, max_length=12)),
                ('count', models.BigIntegerField()),
                ('total', models.FloatField()),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('name', 'labels', 'le'), name='measure_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.RunPython(protect_audit, release_audit),
        migrations.RunPython(add_installation, migrations.RunPython.noop),
    ]
