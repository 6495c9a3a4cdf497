"""Requests of the REST API: authentication, scopes, parameters, bodies, writes."""
