from django.db import migrations, models

SAFE_BESIDE_OLD_CODE = "The column and its check keep their names; only the field in the code has another one."


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0008_own_nominal'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint('ledgerentry', 'ledger_used_not_negative'),
                migrations.RenameField('ledgerentry', 'used', 'reserved'),
                migrations.AlterField(
                    model_name='ledgerentry',
                    name='reserved',
                    field=models.BigIntegerField(db_column='used', default=0),
                ),
                migrations.AddConstraint(
                    'ledgerentry',
                    models.CheckConstraint(
                        condition=models.Q(('reserved__gte', 0)), name='ledger_used_not_negative'
                    ),
                ),
            ],
        ),
    ]
