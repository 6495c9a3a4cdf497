from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0013_clusters_healthy_since")]

    operations = [
        migrations.AddField(
            model_name='node',
            name='closed',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
