"""`allotment access-key create`: a token for the REST API, for whoever has a shell on the platform."""

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
    help = "Make an access key for the REST API; the token is shown once"

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="print a new token")
        create.add_argument("--user", required=True, metavar="NAME", help="whose key it is")
        create.add_argument("--name", default="command line", help="what it is for")
        create.add_argument("--json", metavar="FILE", help="write it as JSON; - is standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}", returncode=2)
        with transaction.atomic():  # a token that cannot be written is never made
            key, token = access_key_create(acting_user=SYSTEM, user=user, name=options["name"])
            if options["json"] is None:
                sys.stdout.write(f"{token}\n")
                return
            told = {"user": user.username, "name": key.name, "prefix": key.prefix, "token": token}
            write_json(options["json"], told, secret=True)
