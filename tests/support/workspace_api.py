"""The endpoints of a Databricks workspace that `databricks bundle` calls, over the state of the stand-in.

They follow the public REST reference (https://docs.databricks.com/api/workspace/introduction) as far as a
bundle's validate, deploy, summary, run and destroy need it. They refuse what a workspace refuses and the CLI
does not see: a job whose wheel was not uploaded, a dashboard without a warehouse, a schema in a catalog and a
volume in a schema that are not there, a group or service principal that nobody knows.
"""

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from tests.support.workspace_state import (
    ACCOUNT_GROUP,
    CATALOG,
    SERVICE_PRINCIPAL,
    USER,
    WAREHOUSE,
    WORKSPACE_GROUP,
    Call,
    Json,
    Refused,
    Workspace,
)

# ---- files of the workspace: /Workspace/Users/… and /Users/… are the same place


def _path(text: str) -> str:
    path = "/" + unquote(text).strip("/")
    return path.removeprefix("/Workspace") or "/"


def _found(place: dict[str, Json], name: str, kind: str) -> Json:
    if name not in place:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"{kind} {name} does not exist.")
    return place[name]


def _status(workspace: Workspace, path: str) -> Json:
    number = abs(hash(path)) % 10**12
    if path in workspace.files:
        return {"object_type": "FILE", "path": path, "object_id": number, "resource_id": str(number)}
    if path in workspace.folders:
        return {"object_type": "DIRECTORY", "path": path, "object_id": number, "resource_id": str(number)}
    raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Path ({path}) doesn't exist.")


def get_status(workspace: Workspace, call: Call) -> Json:
    return _status(workspace, _path(call.query["path"]))


def mkdirs(workspace: Workspace, call: Call) -> Json:
    path = PurePosixPath(_path(call.json["path"]))
    workspace.folders |= {str(path), *map(str, path.parents)}
    return {}


def delete_path(workspace: Workspace, call: Call) -> Json:
    path = _path(call.json["path"])
    _status(workspace, path)
    inside = path.rstrip("/") + "/"
    workspace.files = {
        name: data for name, data in workspace.files.items() if name != path and not name.startswith(inside)
    }
    workspace.folders = {name for name in workspace.folders if name != path and not name.startswith(inside)}
    return {}


def _write(workspace: Workspace, path: str, data: bytes, overwrite: bool) -> Json:
    if path in workspace.files and not overwrite:
        raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"Path ({path}) already exists.")
    parent = str(PurePosixPath(path).parent)
    if parent not in workspace.folders:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"The parent folder ({parent}) does not exist.")
    workspace.files[path] = data
    return {}


def import_file(workspace: Workspace, call: Call) -> Json:
    return _write(workspace, _path(call.names["path"]), call.body, call.query.get("overwrite") == "true")


def read_path(workspace: Workspace, call: Call) -> bytes:
    path = _path(call.names.get("path") or call.query["path"])
    _status(workspace, path)
    return workspace.files[path]


# ---- the current user, and who may do what


def me(workspace: Workspace, call: Call) -> Json:
    return {"id": "1", "userName": USER, "active": True, "emails": [{"value": USER, "primary": True}]}


def metadata(workspace: Workspace, call: Call) -> Json:
    return {"workspace_id": "1", "cloud": "AWS", "oidc_endpoint": "http://127.0.0.1:9/oidc"}


def get_permissions(workspace: Workspace, call: Call) -> Json:
    given = workspace.permissions.get(f"{call.names['kind']}/{call.names['id']}", [])
    listed = [
        {
            **{key: value for key, value in entry.items() if key != "permission_level"},
            "all_permissions": [{"permission_level": entry["permission_level"], "inherited": False}],
        }
        for entry in given
    ]
    return {"object_id": f"/{call.names['kind']}/{call.names['id']}", "access_control_list": listed}


def put_permissions(workspace: Workspace, call: Call) -> Json:
    key = f"{call.names['kind']}/{call.names['id']}"
    given = call.json.get("access_control_list", [])
    for name in [entry["group_name"] for entry in given if "group_name" in entry]:
        if name != WORKSPACE_GROUP:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Principal: GroupName({name}) does not exist")
    workspace.permissions[key] = given
    if call.names["kind"] != "directories":  # set anew at every deploy, which changes no resource
        workspace.changes.append(f"permissions {key}")
    return get_permissions(workspace, call)


def get_grants(workspace: Workspace, call: Call) -> Json:
    given = workspace.grants.get(f"{call.names['kind']}/{call.names['name']}", {})
    return {
        "privilege_assignments": [
            {"principal": who, "privileges": sorted(what)} for who, what in given.items() if what
        ]
    }


def patch_grants(workspace: Workspace, call: Call) -> Json:
    given = workspace.grants.setdefault(f"{call.names['kind']}/{call.names['name']}", {})
    for change in call.json.get("changes", []):
        if change["principal"] not in (ACCOUNT_GROUP, SERVICE_PRINCIPAL):
            raise Refused(
                404, "PRINCIPAL_DOES_NOT_EXIST", f"Could not find principal with name {change['principal']}"
            )
        held = given.setdefault(change["principal"], set())
        removed = set(change.get("remove") or [])
        held -= set(held) if "ALL_PRIVILEGES" in removed else removed
        held |= set(change.get("add") or [])
    workspace.changes.append(f"grants {call.names['name']}")
    return get_grants(workspace, call)


# ---- Unity Catalog


def create_schema(workspace: Workspace, call: Call) -> Json:
    given = call.json
    if given["catalog_name"] != CATALOG:
        raise Refused(404, "CATALOG_DOES_NOT_EXIST", f"Catalog '{given['catalog_name']}' does not exist.")
    name = f"{given['catalog_name']}.{given['name']}"
    return _create(
        workspace,
        workspace.schemas,
        name,
        {**given, "full_name": name, "owner": USER, "catalog_type": "MANAGED_CATALOG"},
    )


def create_volume(workspace: Workspace, call: Call) -> Json:
    given = call.json
    schema = f"{given['catalog_name']}.{given['schema_name']}"
    _found(workspace.schemas, schema, "Schema")
    name = f"{schema}.{given['name']}"
    return _create(
        workspace, workspace.volumes, name, {**given, "full_name": name, "owner": USER, "volume_id": name}
    )


def _create(workspace: Workspace, place: dict[str, Json], name: str, made: Json) -> Json:
    if name in place:
        raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"{name} already exists.")
    place[name] = made
    workspace.changes.append(f"create {name}")
    return made


def _of(kind: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Read, change and delete a resource of Unity Catalog, which its full name says."""

    def get(workspace: Workspace, call: Call) -> Json:
        return _found(getattr(workspace, kind), call.names["name"], kind)

    def patch(workspace: Workspace, call: Call) -> Json:
        found = get(workspace, call)
        found.update({key: value for key, value in call.json.items() if key != "new_name"})
        workspace.changes.append(f"update {call.names['name']}")
        return found

    def delete(workspace: Workspace, call: Call) -> Json:
        get(workspace, call)
        del getattr(workspace, kind)[call.names["name"]]
        workspace.changes.append(f"delete {call.names['name']}")
        return {}

    return get, patch, delete


# ---- jobs


def _check_job(workspace: Workspace, settings: Json) -> None:
    """INVALID_PARAMETER_VALUE for a wheel that was not uploaded, or a principal that is not there."""
    wheels = [
        text
        for environment in settings.get("environments", [])
        for text in environment.get("spec", {}).get("dependencies", [])
        if text.endswith(".whl")
    ]
    wheels += [
        library["whl"]
        for task in settings["tasks"]
        for library in task.get("libraries", [])
        if "whl" in library
    ]
    for wheel in wheels:
        if _path(wheel) not in workspace.files:
            raise Refused(400, "INVALID_PARAMETER_VALUE", f"The library {wheel} does not exist.")
    principal = settings.get("run_as", {}).get("service_principal_name", SERVICE_PRINCIPAL)
    if principal != SERVICE_PRINCIPAL:
        raise Refused(400, "INVALID_PARAMETER_VALUE", f"The service principal '{principal}' does not exist.")


def create_job(workspace: Workspace, call: Call) -> Json:
    settings = call.json
    _check_job(workspace, settings)
    number = workspace.number()
    permissions = settings.pop("access_control_list", [])
    workspace.permissions[f"jobs/{number}"] = permissions
    workspace.jobs[str(number)] = {"job_id": number, "creator_user_name": USER, "settings": settings}
    workspace.changes.append(f"create job {settings['name']}")
    return {"job_id": number}


def reset_job(workspace: Workspace, call: Call) -> Json:
    given = call.json
    job = _found(workspace.jobs, str(given["job_id"]), "Job")
    _check_job(workspace, given["new_settings"])
    job["settings"] = given["new_settings"]
    workspace.changes.append(f"update job {job['settings']['name']}")
    return {}


def get_job(workspace: Workspace, call: Call) -> Json:
    return _found(workspace.jobs, call.query["job_id"], "Job")


def delete_job(workspace: Workspace, call: Call) -> Json:
    number = str(call.json["job_id"])
    name = _found(workspace.jobs, number, "Job")["settings"]["name"]
    del workspace.jobs[number]
    workspace.changes.append(f"delete job {name}")
    return {}


def run_job(workspace: Workspace, call: Call) -> Json:
    """A run that has succeeded, task by task: nothing is executed here."""
    job = _found(workspace.jobs, str(call.json["job_id"]), "Job")
    done = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""}
    number = workspace.number()
    tasks = [
        {"run_id": workspace.number(), "task_key": task["task_key"], "state": done, "attempt_number": 0}
        for task in job["settings"]["tasks"]
    ]
    run = {
        "job_id": job["job_id"],
        "run_id": number,
        "run_name": job["settings"]["name"],
        "state": done,
        "tasks": tasks,
    }
    workspace.runs[str(number)] = {
        **run,
        "run_page_url": f"http://127.0.0.1/jobs/{job['job_id']}/runs/{number}",
    }
    return {"run_id": number}


def get_run(workspace: Workspace, call: Call) -> Json:
    return _found(workspace.runs, call.query["run_id"], "Run")


def run_output(workspace: Workspace, call: Call) -> Json:
    return {"logs": "", "metadata": {"run_id": int(call.query["run_id"])}}


# ---- dashboards


def create_dashboard(workspace: Workspace, call: Call) -> Json:
    given = call.json
    if given.get("warehouse_id") != WAREHOUSE:
        raise Refused(
            400, "INVALID_PARAMETER_VALUE", f"The warehouse '{given.get('warehouse_id')}' does not exist."
        )
    json.loads(given["serialized_dashboard"])
    folder = _path(given["parent_path"])
    _status(workspace, folder)
    name = f"{workspace.number():032x}"
    path = f"{folder}/{given['display_name']}.lvdash.json"
    made = {
        **given,
        "dashboard_id": name,
        "etag": str(workspace.number()),
        "lifecycle_state": "ACTIVE",
        "path": path,
    }
    workspace.files[path] = given["serialized_dashboard"].encode()
    return _create(workspace, workspace.dashboards, name, made)


def get_dashboard(workspace: Workspace, call: Call) -> Json:
    return _found(workspace.dashboards, call.names["id"], "Dashboard")


def patch_dashboard(workspace: Workspace, call: Call) -> Json:
    found = get_dashboard(workspace, call)
    found.update({**call.json, "etag": str(workspace.number())})
    workspace.changes.append(f"update {found['display_name']}")
    return found


def publish_dashboard(workspace: Workspace, call: Call) -> Json:
    found = get_dashboard(workspace, call)
    found["published"] = {"display_name": found["display_name"], "embed_credentials": False, **call.json}
    return found["published"]  # type: ignore[no-any-return]


def published_dashboard(workspace: Workspace, call: Call) -> Json:
    return get_dashboard(workspace, call).get("published") or _found({}, call.names["id"], "Dashboard")


def trash_dashboard(workspace: Workspace, call: Call) -> Json:
    found = get_dashboard(workspace, call)
    workspace.files.pop(found["path"], None)
    del workspace.dashboards[call.names["id"]]
    workspace.changes.append(f"delete {found['display_name']}")
    return {}


def nothing(workspace: Workspace, call: Call) -> Json:
    return {}


get_schema, patch_schema, delete_schema = _of("schemas")
get_volume, patch_volume, delete_volume = _of("volumes")
_UC = "/api/2.1/unity-catalog"
_PAGES = "/api/2.0/lakeview/dashboards"
ROUTES: dict[str, Callable[[Workspace, Call], Json | bytes]] = {
    "GET /.well-known/databricks-config": metadata,
    "GET /api/2.0/preview/scim/v2/Me": me,
    "GET /api/2.0/workspace/get-status": get_status,
    "GET /api/2.0/workspace/export": read_path,
    "POST /api/2.0/workspace/mkdirs": mkdirs,
    "POST /api/2.0/workspace/delete": delete_path,
    "POST /api/2.0/workspace-files/import-file/{path…}": import_file,
    "GET /api/2.0/workspace-files/{path…}": read_path,
    "GET /api/2.0/permissions/{kind}/{id}": get_permissions,
    "PUT /api/2.0/permissions/{kind}/{id}": put_permissions,
    f"GET {_UC}/permissions/{{kind}}/{{name}}": get_grants,
    f"PATCH {_UC}/permissions/{{kind}}/{{name}}": patch_grants,
    f"POST {_UC}/schemas": create_schema,
    f"GET {_UC}/schemas/{{name}}": get_schema,
    f"PATCH {_UC}/schemas/{{name}}": patch_schema,
    f"DELETE {_UC}/schemas/{{name}}": delete_schema,
    f"POST {_UC}/volumes": create_volume,
    f"GET {_UC}/volumes/{{name}}": get_volume,
    f"PATCH {_UC}/volumes/{{name}}": patch_volume,
    f"DELETE {_UC}/volumes/{{name}}": delete_volume,
    "POST /api/2.2/jobs/create": create_job,
    "POST /api/2.2/jobs/reset": reset_job,
    "POST /api/2.2/jobs/delete": delete_job,
    "GET /api/2.2/jobs/get": get_job,
    "POST /api/2.2/jobs/run-now": run_job,
    "GET /api/2.2/jobs/runs/get": get_run,
    "GET /api/2.2/jobs/runs/get-output": run_output,
    f"POST {_PAGES}": create_dashboard,
    f"GET {_PAGES}/{{id}}": get_dashboard,
    f"PATCH {_PAGES}/{{id}}": patch_dashboard,
    f"DELETE {_PAGES}/{{id}}": trash_dashboard,
    f"POST {_PAGES}/{{id}}/published": publish_dashboard,
    f"GET {_PAGES}/{{id}}/published": published_dashboard,
    "POST /telemetry-ext": nothing,
}
