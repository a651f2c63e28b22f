"""A Databricks bundle as its targets see it: the files merged, a target with its presets applied, and values
in the place of `${…}`.
"""

import copy
import re
from pathlib import Path
from typing import Any

import yaml

USER = "ada@example.com"
Bundle = dict[str, Any]
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


def read_bundle(root: Path, *more: str) -> Bundle:
    """databricks.yml and what it includes, each resource with the `_folder` of its file; `more` is included
    too. ValueError where two files define one resource, or where an include matches nothing.
    """
    bundle: Bundle = yaml.safe_load((root / "databricks.yml").read_text())
    bundle.setdefault("resources", {})
    for pattern in (*bundle.pop("include"), *more):
        files = sorted(root.glob(pattern))
        if not files:
            raise ValueError(f"include: {pattern} matches nothing")
        for file in files:
            _include(bundle, file)
    return bundle


def _include(bundle: Bundle, file: Path) -> None:
    found = yaml.safe_load(file.read_text())
    bundle.setdefault("variables", {}).update(found.get("variables", {}))
    for kind, items in found["resources"].items():
        known = bundle["resources"].setdefault(kind, {})
        for name, item in items.items():
            if name in known:
                raise ValueError(f"{kind}.{name}: is defined in two files")
            known[name] = {**item, "_folder": str(file.parent)}


def resolved(bundle: Bundle, target: str, **given: Any) -> Bundle:
    """The bundle as this target deploys it, with these values given to its variables."""
    bundle = copy.deepcopy(bundle)
    for name, value in given.items():
        bundle["variables"][name]["default"] = value
    chosen = bundle.pop("targets")[target]
    merged: Bundle = _merge(bundle, {name: value for name, value in chosen.items() if name != "default"})
    is_dev = merged.get("mode") == "development"
    prefix = "[dev ada] " if is_dev else merged.get("presets", {}).get("name_prefix", "")
    for kind, named in (("jobs", "name"), ("schemas", "name"), ("dashboards", "display_name")):
        for item in merged["resources"].get(kind, {}).values():
            item[named] = (_schema_prefix(prefix) if kind == "schemas" else prefix) + item[named]
    merged["paused"] = is_dev or merged.get("presets", {}).get("trigger_pause_status") == "PAUSED"
    values = _values(merged, target)
    return _substitute(merged, values, ())  # type: ignore[no-any-return]


def _schema_prefix(prefix: str) -> str:
    """A prefix as the CLI puts it before a schema's name: `[dev ada] ` is dev_ada_, staging_ is staging."""
    words = re.sub(r"\W+", "_", prefix).strip("_").lower()
    return f"{words}_" if prefix.rstrip().endswith("]") else words


def _merge(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: _merge(one.get(name), other[name]) if name in other else one[name]
            for name in {**one, **other}
        }
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *other]
    return one if other is None else other


def _values(bundle: Bundle, target: str) -> dict[str, Any]:
    root = bundle.get("workspace", {}).get(
        "root_path", f"/Workspace/Users/{USER}/.bundle/{bundle['bundle']['name']}/{target}"
    )
    values = {
        "bundle.name": bundle["bundle"]["name"],
        "bundle.target": target,
        "workspace.current_user.userName": USER,
        "workspace.root_path": root,
        "workspace.file_path": f"{root}/files",
    }
    values |= {
        f"var.{name}": said.get("default", f"<{name}>") for name, said in bundle.get("variables", {}).items()
    }
    for name, schema in bundle["resources"].get("schemas", {}).items():
        values[f"resources.schemas.{name}.name"] = schema["name"]
    for name, volume in bundle["resources"].get("volumes", {}).items():
        place = [str(volume.get(part)) for part in ("catalog_name", "schema_name", "name")]
        values[f"resources.volumes.{name}.volume_path"] = "/".join(["/Volumes", *place])
    return values


def _substitute(value: Any, values: dict[str, Any], seen: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _substitute(item, values, seen) for name, item in value.items()}
    if isinstance(value, list):
        return [_substitute(item, values, seen) for item in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _lookup(whole[1], values, seen)
    return _REFERENCE.sub(lambda found: str(_lookup(found[1], values, seen)), value)


def _lookup(name: str, values: dict[str, Any], seen: tuple[str, ...]) -> Any:
    if name not in values or name in seen:
        raise ValueError(f"${{{name}}}: is not defined")
    return _substitute(values[name], values, (*seen, name))


def plain(resource: Bundle) -> Bundle:
    """The resource without what `read_bundle` noted."""
    return {name: value for name, value in resource.items() if name != "_folder"}
