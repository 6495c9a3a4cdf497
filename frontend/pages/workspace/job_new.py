"""Submitting a job."""

from django.http import HttpRequest, HttpResponse


def job_new(request: HttpRequest, workspace: str) -> HttpResponse:
    return HttpResponse("")


job_new_check = job_new_convert = job_new
