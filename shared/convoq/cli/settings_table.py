"""What can be set, as text: `deploy/settings.md` and `deploy/env.example` are made here."""

from __future__ import annotations

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from convoq.settings import PREFIX, Settings


def variable(name: str, field: FieldInfo) -> str:
    """The environment variable of a field: the first of its names."""
    if isinstance(field.validation_alias, AliasChoices):
        return str(field.validation_alias.choices[0])
    return PREFIX + name.upper()


def _default(field: FieldInfo) -> str:
    value = field.default
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def markdown() -> str:
    rows = [
        f"| `{variable(name, field)}` | {f'`{_default(field)}`' if _default(field) else '–'} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | default | what it sets |", "|---|---|---|", *rows]) + "\n"


def env_example() -> str:
    """Every variable, commented out where it stands at its default, as docker compose and systemd read it."""
    lines = ["# convoq's settings, at their defaults (made by `convoq settings --env`). Uncomment what you change."]
    for name, field in Settings.model_fields.items():
        lines += ["", f"# {field.description}", f"#{variable(name, field)}={_default(field)}"]
    return "\n".join(lines) + "\n"
