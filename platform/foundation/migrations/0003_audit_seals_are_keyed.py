"""Seals without a key are removed: all records are sealed anew, with the key, by the next sweeps."""

from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = (
    "old workers alone write this table, in a task that does nothing else: it fails until they are replaced, "
    "and the next worker seals what they could not. Nobody reads it but to verify the chain"
)


def remove_plain_seals(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE foundation_auditseal DISABLE TRIGGER USER")
    apps.get_model("foundation", "AuditSeal").unscoped.all().delete()
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE foundation_auditseal ENABLE TRIGGER USER")


class Migration(migrations.Migration):
    dependencies = [("foundation", "0002_installation")]

    operations = [
        migrations.RunPython(remove_plain_seals, migrations.RunPython.noop),
        migrations.AddField("auditseal", "key_id", models.CharField(db_default="", max_length=8)),
        migrations.AddConstraint(
            "auditseal",
            models.CheckConstraint(condition=~models.Q(key_id=""), name="audit_seal_is_keyed"),
        ),
    ]
