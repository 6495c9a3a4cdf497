"""`allotment access-key create`: a token for the REST API, for an administrator with a shell."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from foundation.core.actor import SYSTEM
from tenants.management.results import write_json
from tenants.models import User
from tenants.services.access_key import access_key_create


class Command(BaseCommand):
    help = "Create an access key (the token is shown once)"

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create an access key and print the token")
        create.add_argument("--user", required=True, metavar="NAME", help="owner of the key")
        create.add_argument("--name", default="command line", help="description")
        create.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"user {options['user']!r} not found", returncode=2)
        with transaction.atomic():  # no key is created whose token cannot be written
            key, token = access_key_create(acting_user=SYSTEM, user=user, name=options["name"])
            if options["json"] is None:
                sys.stdout.write(f"{token}\n")
                return
            fields = {"user": user.username, "name": key.name, "prefix": key.prefix, "token": token}
            write_json(options["json"], fields, secret=True)
