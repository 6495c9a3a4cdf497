import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.db.models.manager
import django.utils.timezone
import foundation.core.identifiers
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    # The steps of the development before the first release; goes with that release.
    replaces = [
        ('tenants', '0001_tables'),
        ('tenants', '0002_accounts_have_versions'),
        ('tenants', '0003_one_time_passwords_expire'),
        ('tenants', '0004_columns_have_database_defaults'),
        ('tenants', '0005_users_end_sessions'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='tenants.tenant')),
                ('kind', models.CharField(choices=[('folder', 'Folder'), ('workspace', 'Workspace')], max_length=10)),
                ('slug', models.SlugField(max_length=63, unique=True)),
                ('name', models.CharField(max_length=120)),
                ('path', models.TextField(db_index=True, editable=False)),
                ('archived_at', models.DateTimeField(blank=True, null=True)),
                ('archived_with', models.UUIDField(blank=True, db_index=True, null=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('archived_at__isnull', True), ('archived_with__isnull', True)), models.Q(('archived_at__isnull', False), ('archived_with__isnull', False)), _connector='OR'), name='tenant_archived_with_time'), models.UniqueConstraint(models.F('parent'), django.db.models.functions.text.Lower('name'), condition=models.Q(('archived_at__isnull', True)), name='tenant_name_once_among_siblings'), models.CheckConstraint(condition=models.Q(('parent__isnull', False), ('kind', 'folder'), _connector='OR'), name='tenant_root_is_folder'), models.UniqueConstraint(condition=models.Q(('parent__isnull', True)), fields=('kind',), name='tenant_tree_has_one_root')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='CustomRole',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='custom_roles', to='tenants.tenant')),
                ('name', models.CharField(max_length=60)),
                ('description', models.CharField(blank=True, default='', max_length=200)),
                ('points', models.JSONField(default=list)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), condition=models.Q(('tenant__isnull', True)), name='custom_role_once_on_platform'), models.UniqueConstraint(models.F('tenant'), django.db.models.functions.text.Lower('name'), name='custom_role_once_per_tenant')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Group',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('name', models.CharField(max_length=120, unique=True)),
                ('claim', models.CharField(blank=True, max_length=200, null=True, unique=True)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('person', 'Person'), ('service', 'Service account')], default='person', max_length=10)),
                ('home', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='service_accounts', to='tenants.tenant')),
                ('must_change_password', models.BooleanField(default=False)),
                ('password_expires_at', models.DateTimeField(blank=True, null=True)),
                ('sessions_ended', models.PositiveIntegerField(db_default=0, default=0)),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'abstract': False,
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('home__isnull', True), ('kind', 'person')), models.Q(('home__isnull', False), ('kind', 'service')), _connector='OR'), name='user_service_account_has_home')],
            },
            managers=[
                ('objects', django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name='AccessKey',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='access_keys', to=settings.AUTH_USER_MODEL)),
                ('name', models.CharField(max_length=80)),
                ('prefix', models.CharField(max_length=16, unique=True)),
                ('secret_hash', models.CharField(max_length=64)),
                ('scopes', models.JSONField(default=list)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('replaced_by', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='replaces', to='tenants.accesskey')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Member',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='tenants.group')),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='members', to='tenants.tenant')),
                ('role', models.CharField(blank=True, choices=[('admin', 'Admin'), ('editor', 'Editor'), ('viewer', 'Viewer'), ('platform-admin', 'Platform admin'), ('platform-viewer', 'Platform viewer'), ('auditor', 'Auditor')], default='', max_length=20)),
                ('custom_role', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='members', to='tenants.customrole')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('group', 'tenant'), name='member_group_once_per_tenant'), models.UniqueConstraint(condition=models.Q(('tenant__isnull', True)), fields=('group',), name='member_group_one_platform_role'), models.CheckConstraint(condition=models.Q(models.Q(('role', ''), ('custom_role__isnull', False)), models.Q(models.Q(('role', ''), _negated=True), ('custom_role__isnull', True)), _connector='OR'), name='member_has_one_role'), models.CheckConstraint(condition=models.Q(models.Q(('group__isnull', True), ('user__isnull', False)), models.Q(('group__isnull', False), ('user__isnull', True)), _connector='OR'), name='member_is_user_or_group'), models.UniqueConstraint(fields=('user', 'tenant'), name='member_once_per_tenant'), models.UniqueConstraint(condition=models.Q(('tenant__isnull', True)), fields=('user',), name='member_one_platform_role'), models.CheckConstraint(condition=models.Q(('role', ''), models.Q(('role__in', ('platform-admin', 'platform-viewer', 'auditor')), ('tenant__isnull', True)), models.Q(('tenant__isnull', False), models.Q(('role__in', ('platform-admin', 'platform-viewer', 'auditor')), _negated=True)), _connector='OR'), name='member_role_matches_scope')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='GroupMember',
            fields=[
                ('id', models.UUIDField(default=foundation.core.identifiers.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='people', to='tenants.group')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='in_groups', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('group', 'user'), name='group_member_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
