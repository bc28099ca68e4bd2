"""What can be set, as text: `deploy/settings.md` and `deploy/env.example` are made here."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from convoq.settings import Settings, file_variable, variables


def _default(field: FieldInfo) -> str:
    value = field.default
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def markdown() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        default = f"`{_default(field)}`" if _default(field) else "–"
        file = f"; or `{file_variable(name)}`, a file that holds it" if file_variable(name) else ""
        rows.append(f"| `{variables(name)[0]}` | {default} | {field.description}{file} |")
    return "\n".join(["| variable | default | what it sets |", "|---|---|---|", *rows]) + "\n"


def env_example() -> str:
    """Every variable, commented out where it stands at its default, as docker compose and systemd read it."""
    lines = ["# convoq's settings, at their defaults (made by `convoq settings --env`). Uncomment what you change."]
    for name, field in Settings.model_fields.items():
        lines += ["", f"# {field.description}", f"#{variables(name)[0]}={_default(field)}"]
        if file_variable(name):
            lines.append(f"#{file_variable(name)}=")
    return "\n".join(lines) + "\n"
