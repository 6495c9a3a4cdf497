"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from tenants.api import accounts, audit, invitations, keys, members, tenants, views

_WORKSPACES = [
    path("workspaces", views.WorkspacesView.as_view(), name="workspaces"),
    path("workspaces/<slug:ws>", views.WorkspaceDetailView.as_view(), name="workspace"),
    path("workspaces/<slug:ws>/keys", keys.AccessKeysView.as_view(), name="keys"),
    path("workspaces/<slug:ws>/keys/<str:prefix>", keys.AccessKeyView.as_view(), name="key"),
    path("workspaces/<slug:ws>/keys/<str:prefix>/rotate", keys.AccessKeyRotateView.as_view()),
    path("workspaces/<slug:ws>/audit", audit.WorkspaceAuditView.as_view(), name="audit"),
    path("workspaces/<slug:ws>/audit/export", audit.WorkspaceAuditExportView.as_view(), name="audit-export"),
]

_ME = [
    path("me", views.MeView.as_view(), name="me"),
    path("me/keys", keys.MyKeysView.as_view()),
    path("me/keys/<str:prefix>", keys.MyKeyView.as_view()),
    path("me/keys/<str:prefix>/rotate", keys.MyKeyRotateView.as_view()),
    path("me/password", keys.MyPasswordView.as_view()),
]

_TENANTS = [
    path("tenants", tenants.TenantsView.as_view(), name="tenants"),
    path("tenants/<uuid:tenant>", tenants.TenantView.as_view(), name="tenant"),
    path("tenants/<uuid:tenant>/move", tenants.TenantMoveView.as_view()),
    path("tenants/<uuid:tenant>/archive", tenants.TenantArchiveView.as_view()),
    path("tenants/<uuid:tenant>/restore", tenants.TenantRestoreView.as_view()),
    path("tenants/<uuid:tenant>/members", members.MembersView.as_view()),
    path("tenants/<uuid:tenant>/members/<uuid:member>", members.MemberView.as_view()),
    path("tenants/<uuid:tenant>/permissions", members.EffectiveView.as_view()),
    path("tenants/<uuid:tenant>/roles", members.RolesView.as_view()),
    path("tenants/<uuid:tenant>/roles/<uuid:role>", members.RoleView.as_view()),
    path("tenants/<uuid:tenant>/service-accounts", accounts.ServiceAccountsView.as_view()),
    path("tenants/<uuid:tenant>/service-accounts/<str:account>", accounts.ServiceAccountView.as_view()),
]

_ADMIN = [
    path("admin/audit", audit.AuditView.as_view(), name="admin-audit"),
    path("admin/audit/export", audit.AuditExportView.as_view(), name="admin-audit-export"),
    path("admin/members", members.PlatformMembersView.as_view()),
    path("admin/members/<uuid:member>", members.PlatformMemberView.as_view()),
    path("admin/roles", members.PlatformRolesView.as_view()),
    path("admin/roles/<uuid:role>", members.PlatformRoleView.as_view()),
    path("admin/users", accounts.UsersView.as_view()),
    path("admin/users/<uuid:user>", accounts.UserView.as_view()),
    path("admin/users/<uuid:user>/unlock", accounts.UserUnlockView.as_view()),
    path("admin/users/<uuid:user>/password", accounts.UserPasswordView.as_view()),
    path("admin/users/<uuid:user>/invitation", invitations.UserInvitationView.as_view()),
    path("admin/users/<uuid:user>/end-access", invitations.UserEndAccessView.as_view()),
    path("admin/invitations", invitations.InvitationsView.as_view()),
    path("admin/groups", accounts.GroupsView.as_view()),
    path("admin/groups/<uuid:group>", accounts.GroupView.as_view()),
    path("admin/groups/<uuid:group>/people", accounts.GroupPeopleView.as_view()),
    path("admin/groups/<uuid:group>/people/<uuid:user>", accounts.GroupPersonView.as_view()),
]

urlpatterns = [*_ME, *_WORKSPACES, *_TENANTS, *_ADMIN]
