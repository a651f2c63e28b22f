"""References to secrets and to the environment: their forms, where they are allowed, and how they are
resolved.

    ${env:NAME}   ${env:NAME:-default}   {{secrets/scope/key}}   ${secret:scope/key}

A model holds the reference, never its value. `resolve_secrets` is called where the value is needed,
and its result shows its names only. A secret that is written out, or as the default of a reference, is an
error.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping

from lakehouse.errors import ConfigError

SecretLookup = Callable[[str, str], str]

_REFERENCE = re.compile(
    r"\$\{env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}"
    r"|\$\{secret:(?P<scope>[^/{}\s]+)/(?P<key>[^/{}\s]+)\}"
    r"|\{\{\s*secrets/(?P<scope2>[^/{}\s]+)/(?P<key2>[^/{}\s]+)\s*\}\}"
)
_LOOKS_LIKE = re.compile(r"\$\{|\{\{")
_SECRET_NAME = re.compile(
    r"(password|passwd|secret|keystore\.key|(access|api|secret|account)[._-]?key)$", re.I
)
_JAAS_SECRET = re.compile(
    r"""\b\w*(?:password|secret|token|credential)\w*\s*=\s*("[^"]*"|'[^']*'|[^\s;]+)""", re.I
)
_USER_INFO = re.compile(r"://[^/@\s:]+:(?P<secret>[^/@\s]+)@")
FORMS = "write ${env:NAME}, {{secrets/scope/key}} or ${secret:scope/key}"


class Secrets(Mapping[str, str]):
    """Resolved values by name. Its text shows the names only, so that a log or a traceback can't show a
    secret.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._values)})"

    def __reduce__(self) -> str:
        raise TypeError("resolved secrets are not written anywhere: resolve them where they are needed")


def has_reference(text: str) -> bool:
    """Whether the text holds a reference, valid or malformed."""
    return bool(_LOOKS_LIKE.search(text))


def is_malformed(text: str) -> bool:
    """Whether the text holds a `${` or `{{` that is no reference of a known form."""
    return has_reference(_REFERENCE.sub("", text))


def has_secret_reference(text: str) -> bool:
    """Whether the text refers to a secret scope."""
    return any(match["scope"] or match["scope2"] for match in _REFERENCE.finditer(text))


def holds_secret(name: str, text: str) -> bool:
    """Whether an option holds a secret that is written out."""
    if name.endswith("sasl.jaas.config"):
        return not _is_pure_reference(text) and any(
            not _is_pure_reference(match[1].strip("\"'")) for match in _JAAS_SECRET.finditer(text)
        )
    if _SECRET_NAME.search(name):
        return not _is_pure_reference(text)
    match = _USER_INFO.search(text)
    return match is not None and not _is_pure_reference(match["secret"])


def resolve_text(text: str, env: Mapping[str, str] | None = None, secret: SecretLookup | None = None) -> str:
    """The text with its references replaced; a ConfigError names a reference without a value, never a
    value.
    """
    environment = os.environ if env is None else env
    lookup = secret or databricks_secret
    return _REFERENCE.sub(lambda match: _value(match, environment, lookup), text)


def resolve_secrets(
    values: Mapping[str, str], env: Mapping[str, str] | None = None, secret: SecretLookup | None = None
) -> Secrets:
    """All values with their references replaced."""
    return Secrets({name: resolve_text(text, env, secret) for name, text in values.items()})


def databricks_secret(scope: str, key: str) -> str:
    """A secret of a Databricks secret scope, read by the runtime's own client."""
    try:
        from databricks.sdk.runtime import dbutils
    except ImportError:
        raise ConfigError(
            f"secret {scope}/{key}: secret scopes are there on Databricks only; use ${{env:NAME}} elsewhere"
        ) from None
    return str(dbutils.secrets.get(scope, key))


def _value(match: re.Match[str], env: Mapping[str, str], secret: SecretLookup) -> str:
    name = match["env"]
    if name is None:
        return secret(match["scope"] or match["scope2"], match["key"] or match["key2"])
    if env.get(name):
        return env[name]
    if match["default"] is None:
        # no word of a default here: validate refuses that of a secret
        raise ConfigError(f"${{env:{name}}}: the environment variable {name} is not set; set it")
    return match["default"].removeprefix(":-")


def _is_pure_reference(text: str) -> bool:
    match = _REFERENCE.fullmatch(text.strip())
    return match is not None and match["default"] is None
