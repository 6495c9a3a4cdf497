"""`allotment createsuperuser`: Django's command, which also makes the account a platform admin.

Without that role the account would have no rights, because all rights come from memberships.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.db import transaction

from foundation.core.actor import SYSTEM
from tenants.models import Role, User
from tenants.services.member import member_set


class Command(createsuperuser.Command):
    help = "Create another platform admin. Set up a new installation with: allotment init"

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        before = set(User.objects.filter(is_superuser=True).values_list("pk", flat=True))
        super().handle(*args, **options)
        for user in User.objects.filter(is_superuser=True).exclude(pk__in=before):
            member_set(acting_user=SYSTEM, user=user, tenant=None, role=Role.PLATFORM_ADMIN)
