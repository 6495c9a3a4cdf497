#!/usr/bin/env bash
# Runs once, when the database server is created: it creates a login that owns the database and one for web processes
# that owns nothing. Neither is a superuser, so statements of a web process can't reach rows beyond its row policies.
set -euo pipefail

psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
    --set owner_password="$ALLOTMENT_OWNER_PASSWORD" --set web_password="$ALLOTMENT_WEB_PASSWORD" <<'SQL'
CREATE ROLE allotment LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'owner_password';
CREATE ROLE allotment_web LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'web_password';
CREATE DATABASE allotment OWNER allotment;
REVOKE ALL ON DATABASE allotment FROM PUBLIC;
GRANT CONNECT ON DATABASE allotment TO allotment_web;
SQL
