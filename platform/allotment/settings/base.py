"""The settings of every installation. Variables are read here once, typed, through `environment`."""

from __future__ import annotations

import importlib.util
from datetime import timedelta
from pathlib import Path

from django.utils.translation import gettext_lazy as _

from allotment.processes import paths
from allotment.processes.logs import configure_structlog, logging_config
from allotment.settings import environment as env
from allotment.settings.oidc import *

HOME = paths.find_home_folder()
ALLOTMENT_AUDIT_HEADS = env.read_text("ALLOTMENT_AUDIT_HEADS", str(HOME / "audit-heads"))

# --- Applications ---------------------------------------------------------------------------------
INSTALLED_APPS = [
    "foundation.apps.FoundationConfig",
    "tenants.apps.TenantsConfig",
    "clusters.apps.ClustersConfig",
    "quotas.apps.QuotasConfig",
    "scheduling.apps.SchedulingConfig",
    "telemetry.apps.TelemetryConfig",
    "alerts.apps.AlertsConfig",
    "frontend.apps.FrontendConfig",
    "allotment.apps.AllotmentConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "lucide",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]

MIDDLEWARE = [
    "foundation.web.request_id.RequestIdMiddleware",  # first: everything below logs with the id
    "foundation.web.request_metrics.HttpMeasuresMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "foundation.web.compression.PageCompressionMiddleware",  # above all that changes a body
    "foundation.web.cache_control.CacheControlMiddleware",
    "foundation.web.row_scope_middleware.RowScopeMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "tenants.sign_in.middleware.GrantsMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "foundation.web.rate_limit_middleware.RateLimitMiddleware",
    "allotment.requests.denials.DenialMiddleware",
    "tenants.sign_in.middleware.PasswordAttemptMiddleware",
    "allotment.requests.one_time_passwords.OneTimePasswordMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "axes.middleware.AxesMiddleware",  # last: it replaces the response to a locked-out sign-in
]

ROOT_URLCONF = "allotment.urls"
ASGI_APPLICATION = "allotment.asgi.application"
WSGI_APPLICATION = "allotment.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "frontend.shell.context.console_context",
            ],
        },
    }
]

# --- Sign-in --------------------------------------------------------------------------------------
AUTH_USER_MODEL = "tenants.User"
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # first: a locked-out attempt never reaches a password check
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# Locked by user and address together: an attacker elsewhere cannot lock the owner out. In addition, failures
# of each user and of each address are limited, except for a user who signed in from that address before.
AXES_HANDLER = "tenants.sign_in.sign_in_limits.SignInHandler"
AXES_CLIENT_IP_CALLABLE = "foundation.web.addresses.network_of"
ALLOTMENT_SIGN_IN_FAILURES = {
    "user": env.read_number("ALLOTMENT_SIGN_IN_FAILURES_OF_USER", default=24),
    "address": env.read_number("ALLOTMENT_SIGN_IN_FAILURES_FROM_ADDRESS", default=40),
}
AXES_FAILURE_LIMIT = 8
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
# Attempts during a lockout are not counted: otherwise repeated attempts would extend the lockout forever.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_LOCKOUT_CALLABLE = "frontend.pages.account.sign_in.locked_out"
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False
ALLOTMENT_ONE_TIME_PASSWORD_HOURS = env.read_number(
    "ALLOTMENT_ONE_TIME_PASSWORD_HOURS", default=72, low=1, high=24 * 90
)

# Seconds after which a start is reserved for the first job of a queue that does not fit; 0 is never.
ALLOTMENT_HOLD_AFTER_S = env.read_number("ALLOTMENT_HOLD_AFTER_S", default=3600, low=0, high=30 * 24 * 3600)
ALLOTMENT_RESIZE_BY_USE = env.read_flag("ALLOTMENT_RESIZE_BY_USE", default=False)
# The most GPU time that a cell may lose to preemption, in thousandths; 0 is no limit.
ALLOTMENT_PREEMPTION_LOSS_PERMILLE = env.read_number(
    "ALLOTMENT_PREEMPTION_LOSS_PERMILLE", default=10, low=0, high=1000
)

# Links in notifications begin with this address of the console; without it notifications have no links.
ALLOTMENT_URL = env.read_address("ALLOTMENT_URL", schemes=("https", "http"), default="")
_MAIL = env.read_mail_server("ALLOTMENT_SMTP_URL")
EMAIL_HOST = _MAIL.host
EMAIL_PORT = _MAIL.port
EMAIL_HOST_USER = _MAIL.user
EMAIL_HOST_PASSWORD = _MAIL.password
EMAIL_USE_TLS = _MAIL.starts_tls
EMAIL_USE_SSL = _MAIL.is_tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.read_text("ALLOTMENT_EMAIL_FROM", "allotment@localhost")

# Networks, in addition to public ones, to which addresses entered by users (webhooks, exporters) may lead.
ALLOTMENT_OUTGOING_NETWORKS = env.read_networks("ALLOTMENT_OUTGOING_NETWORKS")

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_NAME = "allotment_session"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "allotment_csrf"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"

# Scripts come from our own address only, so a name that a user chose can never run as one. Plotly and the
# API documentation set styles on elements, which is why styles may be inline.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'", *ALLOTMENT_OIDC_ORIGINS],
        "base-uri": ["'self'"],
    }
}

# The largest body is a YAML import; a job file has a few kilobytes.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000

# --- Language and time ----------------------------------------------------------------------------
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LANGUAGE_COOKIE_NAME = "allotment_language"
LANGUAGE_COOKIE_SAMESITE = "Lax"


def _package_folder(package: str) -> Path:
    # Found by the package: an installed wheel has no repository root to count from.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(package)
    return Path(spec.submodule_search_locations[0])


LOCALE_PATHS = [_package_folder("frontend") / "locale"]

# --- Static files ---------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT: str | None = env.read_text("ALLOTMENT_STATIC_ROOT", str(HOME / "static"))

# --- REST -----------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.api.requests.authentication.AccessKeyAuthentication",
        "tenants.api.requests.authentication.SessionSignIn",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "tenants.sign_in.one_time_passwords.PasswordChosen",
        "tenants.api.requests.key_scopes.KeyScopes",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["foundation.web.parsers.BoundedJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": ["foundation.web.rate_limit.CallerRate"],
    "EXCEPTION_HANDLER": "foundation.web.problems.exception_handler",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Allotment",
    "DESCRIPTION": "Manage quotas, queues and jobs on shared GPU clusters.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    # The values are self-explanatory; the labels of the models are internal names.
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "tenants.api.responses.schema.complete_schema",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Fields called `state`, `mode` and `kind` have different sets of values; clients need stable enum names.
    "ENUM_NAME_OVERRIDES": {
        "ChannelKindEnum": "alerts.models.channel.ChannelKind",
        "SeverityEnum": "alerts.models.rule.AlertSeverity",
        "AlertStateEnum": "alerts.models.alert.AlertState",
        "TenantKindEnum": "tenants.models.tenant.TenantKind",
        "PermissionEnum": "tenants.api.shapes.POINTS",
        "JobKindEnum": "scheduling.models.job.JobKind",
        "JobStateEnum": "scheduling.models.job.JobState",
        "ReplayStateEnum": "scheduling.models.background_simulation.SimulationState",
        "IdleActionEnum": "scheduling.models.idle_stretch.IdleAction",
        "TaskStateEnum": "scheduling.models.job.TaskState",
        "GpuModeEnum": "clusters.models.cluster.GpuMode",
        "JobFileGpuModeEnum": ["whole", "slice", "mig"],
        "PreemptOthersEnum": "quotas.models.queue.PreemptOthers",
        "PreemptWithinEnum": "quotas.models.queue.PreemptWithin",
        "WhenCanEnum": "quotas.models.queue.WhenCan",
        "QuotaRequestStateEnum": "quotas.models.quota_request.RequestState",
        "LoanStateEnum": "quotas.models.override.OverrideState",
        "BudgetActionEnum": "quotas.models.budget.BudgetAction",
        "BudgetStateEnum": ["ok", "warning", "exhausted"],
        "SourceKindEnum": "telemetry.models.source.SourceKind",
        "SourceStateEnum": "telemetry.sources.overview.SourceState",
        "SourceNodeStateEnum": "telemetry.sources.overview.NodeState",
    },
}

# Requests per minute, per access key, user or address; 0 is no limit. All processes share the counts.
ALLOTMENT_RATES = {
    "read": env.read_number("ALLOTMENT_RATE_READS", default=1200),
    "write": env.read_number("ALLOTMENT_RATE_WRITES", default=600),
    "agent": env.read_number("ALLOTMENT_RATE_AGENT_REPORTS", default=120),
    "sign-in": env.read_number("ALLOTMENT_RATE_FAILED_SIGN_INS", default=60),
    # Page requests per address without a sign-in; signed-in users have the limits `read` and `write` for
    # pages.
    "stranger-read": env.read_number("ALLOTMENT_RATE_STRANGER_READS", default=600),
    "stranger-write": env.read_number("ALLOTMENT_RATE_STRANGER_WRITES", default=120),
}

# --- Platform -------------------------------------------------------------------------------------
ALLOTMENT_HOME = HOME
ALLOTMENT_KUBECONFIG_DIR = env.read_text("ALLOTMENT_KUBECONFIG_DIR", "/etc/allotment")
ALLOTMENT_OBSERVE_EVERY_S = 5
# How often (s) the platform confirms to a cluster that it owns it. A cluster that was taken over is used
# after twice that time.
ALLOTMENT_OWNER_CONFIRM_S = env.read_number("ALLOTMENT_OWNER_CONFIRM_S", default=20, low=1, high=300)
ALLOTMENT_LEASE_S = env.read_number("ALLOTMENT_LEASE_S", default=30, low=2, high=600)
# The namespace in which the platform itself runs, if it runs in a cluster: no workspace may have its name.
ALLOTMENT_NAMESPACE = env.read_text("ALLOTMENT_NAMESPACE", env.own_namespace())
ALLOTMENT_PENDING_TASKS_MAX = env.read_number(
    "ALLOTMENT_PENDING_TASKS_MAX", default=100_000, low=10_000, high=10**7
)
# Networks to which pods of jobs may not connect, in addition to the metadata servers of clouds.
ALLOTMENT_DENIED_NETWORKS = env.read_networks("ALLOTMENT_DENIED_NETWORKS")
ALLOTMENT_CURRENCY = env.read_text("ALLOTMENT_CURRENCY", "USD")
ALLOTMENT_CURRENCY_DIGITS = env.read_number("ALLOTMENT_CURRENCY_DIGITS", default=2, low=0, high=6)
ALLOTMENT_REPORT_TIME_ZONE = env.read_text("ALLOTMENT_REPORT_TIME_ZONE", "UTC")
ALLOTMENT_EMBEDDED = False
# Clients with this token may read /metrics. Without a token, only an embedded installation serves /metrics.
ALLOTMENT_METRICS_TOKEN = env.read_text("ALLOTMENT_METRICS_TOKEN", "")
ALLOTMENT_MEASURES_EVERY_S = 5.0  # how often each process stores its counts
ALLOTMENT_DEMO = False  # whether simulated users submit jobs

# --- Logs -----------------------------------------------------------------------------------------
LOGGING = logging_config(
    style=env.read_choice("ALLOTMENT_LOG_FORMAT", default="console", among=("console", "json")),
    level=env.read_choice("ALLOTMENT_LOG_LEVEL", default="INFO", among=("DEBUG", "INFO", "WARNING", "ERROR")),
)
configure_structlog()
