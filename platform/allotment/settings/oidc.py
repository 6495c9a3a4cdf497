"""Sign-in by an OpenID Connect provider: off unless `ALLOTMENT_OIDC_ISSUER` names one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from allotment.settings import environment as env

ALLOTMENT_OIDC_GROUPS_CLAIM = env.read_text("ALLOTMENT_OIDC_GROUPS_CLAIM", "groups")
ALLOTMENT_OIDC_ADMIN_GROUPS = env.read_words("ALLOTMENT_OIDC_ADMIN_GROUPS", [])


def provider_settings(issuer: str, client_id: str, client_secret: str, name: str) -> dict[str, Any]:
    """The entry of allauth for one provider; its other addresses come from its discovery document."""
    return {
        "openid_connect": {
            "APPS": [
                {
                    "provider_id": "sso",
                    "name": name,
                    "client_id": client_id,
                    "secret": client_secret,
                    "settings": {"server_url": issuer, "oauth_pkce_enabled": True},
                }
            ]
        }
    }


_ISSUER = env.read_address("ALLOTMENT_OIDC_ISSUER", schemes=("https", "http"), default="")
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {}
# Browsers check the redirect that follows a form against the page's `form-action`.
ALLOTMENT_OIDC_ORIGINS = ["{0.scheme}://{0.netloc}".format(urlsplit(_ISSUER))] if _ISSUER else []
if _ISSUER:
    SOCIALACCOUNT_PROVIDERS = provider_settings(
        _ISSUER,
        env.read_text("ALLOTMENT_OIDC_CLIENT_ID"),
        env.read_text("ALLOTMENT_OIDC_CLIENT_SECRET"),
        env.read_text("ALLOTMENT_OIDC_NAME", "OpenID Connect"),
    )

ACCOUNT_ADAPTER = "tenants.sign_in.oidc.AccountAdapter"
SOCIALACCOUNT_ADAPTER = "tenants.sign_in.oidc.SocialAdapter"
# Only the provider authenticates users: no local sign-up, no mail, no matching by email address, no stored
# tokens.
SOCIALACCOUNT_ONLY = True
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
SOCIALACCOUNT_AUTO_SIGNUP = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_STORE_TOKENS = False
