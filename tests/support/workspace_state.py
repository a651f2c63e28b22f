"""What the stand-in for a Databricks workspace holds, and what it answers where a request is no success."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

USER = "ada@example.com"
CATALOG = "main"
WAREHOUSE = "0123456789abcdef"
# `users` is the workspace's own group, which Unity Catalog does not know; `account users` is the account's
WORKSPACE_GROUP = "users"
ACCOUNT_GROUP = "account users"
SERVICE_PRINCIPAL = "11111111-2222-3333-4444-555555555555"
Json = dict[str, Any]


class Refused(Exception):
    """An answer that is no success: its status, its error code and a sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Call(NamedTuple):
    """A request: what its path names, its query, and its body as it came."""

    names: dict[str, str]
    query: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body or b"{}")  # type: ignore[no-any-return]


@dataclass
class Workspace:
    """What a workspace holds. `changes` lists what changed a resource, `unknown` the calls that it can't
    answer.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {"/", "/Users", f"/Users/{USER}"})
    jobs: dict[str, Json] = field(default_factory=dict)
    runs: dict[str, Json] = field(default_factory=dict)
    schemas: dict[str, Json] = field(default_factory=dict)
    volumes: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, Json] = field(default_factory=dict)
    grants: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    permissions: dict[str, list[Json]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    numbers: int = 1000

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def resources(self) -> dict[str, list[str]]:
        """The names of all resources, by kind."""
        return {
            "jobs": sorted(job["settings"]["name"] for job in self.jobs.values()),
            "schemas": sorted(self.schemas),
            "volumes": sorted(self.volumes),
            "dashboards": sorted(page["display_name"] for page in self.dashboards.values()),
        }
