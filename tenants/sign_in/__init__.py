"""Signing in: sessions, OpenID Connect, one-time passwords and limits on failed attempts."""
