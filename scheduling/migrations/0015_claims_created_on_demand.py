"""Volume claims whose volume is created when a pod is placed, as a phase of their own."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0014_jobs_with_volumes'),
    ]

    operations = [
        migrations.AlterField(
            model_name='mountedclaim',
            name='phase',
            field=models.CharField(choices=[('bound', 'Bound'), ('pending', 'Pending'), ('unprovisioned', 'Created when a pod is placed'), ('static', 'Pending, volumes are created by hand'), ('class_unread', 'Pending, storage class not readable'), ('not_permitted', 'Pending, node selection not permitted'), ('lost', 'Lost'), ('missing', 'Missing'), ('deleting', 'Deleting'), ('unknown', 'Unknown')], max_length=20),
        ),
    ]
