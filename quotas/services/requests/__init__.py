"""Requests of quota and the decisions about them."""
