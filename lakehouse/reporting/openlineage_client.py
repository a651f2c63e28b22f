"""Sends OpenLineage events to the receiver that the environment names, with the variables of OpenLineage's
own clients.

    OPENLINEAGE_URL, OPENLINEAGE_ENDPOINT (api/v1/lineage), OPENLINEAGE_API_KEY    HTTP, a POST per event
    OPENLINEAGE__TRANSPORT__TYPE=file, OPENLINEAGE__TRANSPORT__LOG_FILE_PATH       JSON lines, appended
    OPENLINEAGE_NAMESPACE (lakehouse)                                              the jobs' namespace
    OPENLINEAGE_DISABLED=true                                                      nothing is sent

A receiver that does not answer is a warning, never a failed run.
"""

import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TIMEOUT = 5.0
log = logging.getLogger(__name__)


def is_asked_for(env: Mapping[str, str] | None = None) -> bool:
    """Whether the environment names a receiver."""
    says = os.environ if env is None else env
    if says.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return bool(says.get("OPENLINEAGE_URL") or _file(says))


def job_namespace(env: Mapping[str, str] | None = None) -> str:
    """The OpenLineage namespace of this project's jobs."""
    return (os.environ if env is None else env).get("OPENLINEAGE_NAMESPACE") or "lakehouse"


def send(events: Iterable[Mapping[str, Any]], env: Mapping[str, str] | None = None) -> int:
    """Send events in order; returns how many were accepted. After a failure the rest is not sent."""
    says = os.environ if env is None else env
    sent = 0
    try:
        for event in events:
            if path := _file(says):
                _append(path, event)
            if url := says.get("OPENLINEAGE_URL"):
                _post(url, says, event)
            sent += 1
    except (OSError, ValueError) as error:
        # the address may hold a password, the error of urllib does not
        log.warning(
            "OpenLineage: events were not delivered: %s",
            getattr(error, "reason", None) or getattr(error, "strerror", None) or error,
        )
    return sent


def _file(says: Mapping[str, str]) -> str | None:
    return (
        says.get("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH")
        if says.get("OPENLINEAGE__TRANSPORT__TYPE", "").lower() == "file"
        else None
    )


def _append(path: str, event: Mapping[str, Any]) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(event) + "\n")


def _post(url: str, says: Mapping[str, str], event: Mapping[str, Any]) -> None:
    address = f"{url.rstrip('/')}/{says.get('OPENLINEAGE_ENDPOINT', 'api/v1/lineage').lstrip('/')}"
    if not address.startswith(("http://", "https://")):
        raise ValueError("OPENLINEAGE_URL is no http or https address")
    headers = {"Content-Type": "application/json"}
    if key := says.get("OPENLINEAGE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(address, json.dumps(event).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT):
        pass
