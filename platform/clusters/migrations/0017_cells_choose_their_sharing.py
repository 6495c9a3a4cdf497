from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0016_clusters_open_after_a_take_over'),
    ]

    operations = [
        migrations.AddField(
            model_name='cell',
            name='sharing',
            field=models.CharField(choices=[('fair', 'By share'), ('classical', 'By priority and age')], db_default='fair', default='fair', max_length=10),
        ),
    ]
