"""A node type's parameters, declared once: the schema validates, documents and draws a form.

    class WaitParameters(Parameters):
        resume: Literal["timeInterval", "specificTime"] = parameter("timeInterval", title="Resume")
        amount: float = parameter(5, when={"resume": "timeInterval"}, ge=0)

Names are n8n's (camelCase); `when` and `versions` say where a parameter counts. One that does not is as not given,
whatever the file has under its name: editors leave behind what was once chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

LATEST: Final = 1000.0
_WHEN, _VERSIONS, _SECRET = "when", "versions", "secret"


def parameter(
    default: Any = ...,
    *,
    when: Mapping[str, object] | None = None,
    versions: tuple[float, float] | None = None,
    secret: bool = False,
    title: str | None = None,
    **field: Any,
) -> Any:
    """A pydantic `Field` with n8n's display options.

    `when` maps names of neighbours to the value, or the list of values, with which this one counts; `versions` are the
    least and greatest `typeVersion` that know it. `secret` values are never shown. The rest is pydantic's (`alias`,
    `description`, `ge`, …).
    """
    extra: dict[str, Any] = {}
    if when is not None:
        extra[_WHEN] = {
            name: list(value) if isinstance(value, list | tuple) else [value] for name, value in when.items()
        }
    if versions is not None:
        extra[_VERSIONS] = list(versions)
    if secret:
        extra[_SECRET] = True
    return Field(default, title=title, json_schema_extra=extra or None, **field)


def version_of(info: ValidationInfo) -> float:
    """The `typeVersion` that the parameters are read for."""
    return float((info.context or {}).get("version", LATEST))


def as_written(info: ValidationInfo) -> bool:
    """Whether they are read as the file has them: in a run their expressions have been evaluated."""
    return not (info.context or {}).get("running")


class Parameters(BaseModel):
    """Parameters as the file has them, after expressions were evaluated. Unknown ones are ignored.

    Of n8n's ways to write a value are understood everywhere: resource locators (`{"__rl": true, "mode", "value"}` is
    its value), numbers for texts and texts for numbers, and null for not given.
    """

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        alias_generator=to_camel,
        coerce_numbers_to_str=True,
        hide_input_in_errors=True,
    )

    deferred: ClassVar[tuple[str, ...]] = ()
    """Dotted paths of parameters whose expressions the node evaluates itself, when it is time for them."""

    _conditional: ClassVar[tuple[tuple[tuple[str, ...], dict[str, Any]], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        found = []
        for name, info in cls.model_fields.items():
            extra = info.json_schema_extra
            if isinstance(extra, dict) and (_WHEN in extra or _VERSIONS in extra):
                found.append((names_of(name, info), dict(extra)))
        cls._conditional = tuple(found)

    @model_validator(mode="before")
    @classmethod
    def _as_it_counts(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, Mapping):
            return data
        given = {name: _plain(value) for name, value in data.items() if value is not None}
        if not cls._conditional:
            return given
        version = version_of(info)
        for names, extra in cls._conditional:
            if not cls._counts(extra, given, version):
                for name in names:
                    given.pop(name, None)
        return given

    @classmethod
    def _counts(cls, extra: Mapping[str, Any], given: Mapping[str, Any], version: float) -> bool:
        least, most = extra.get(_VERSIONS, (0, LATEST))
        return least <= version <= most and all(
            cls._value(name, given) in values for name, values in extra.get(_WHEN, {}).items()
        )

    @classmethod
    def _value(cls, name: str, given: Mapping[str, Any]) -> Any:
        for field, info in cls.model_fields.items():
            names = names_of(field, info)
            if name in names:
                return next(
                    (given[known] for known in names if known in given), info.get_default(call_default_factory=True)
                )
        return given.get(name)

    @classmethod
    def set_aside(cls, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Apart: what is evaluated before the node runs, and the `deferred` ones, of the same nesting."""
        now, later = dict(given), dict[str, Any]()
        for path in cls.deferred:
            holder, aside = now, later
            *way, last = path.split(".")
            for name in way:
                if not isinstance(inner := holder.get(name), dict):
                    break
                holder[name] = holder = dict(inner)
                aside = aside.setdefault(name, {})
            else:
                if last in holder:
                    aside[last] = holder.pop(last)
        return now, later

    @classmethod
    def unknown(cls, given: Mapping[str, Any]) -> Iterator[str]:
        """The names in a file that this node type does not know."""
        known = {name for field, info in cls.model_fields.items() for name in names_of(field, info)}
        return (name for name in given if name not in known)

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """JSON schema with n8n's names. A property also has `when`, `versions` and `secret` as they were declared."""
        return cls.model_json_schema(by_alias=True)


def names_of(field: str, info: FieldInfo) -> tuple[str, ...]:
    """All names that a file may use for a field."""
    validation = info.validation_alias
    choices = getattr(validation, "choices", [validation] if isinstance(validation, str) else [])
    return tuple(
        dict.fromkeys([*(choice for choice in choices if isinstance(choice, str)), info.alias or field, field])
    )


def _plain(value: Any) -> Any:
    return value.get("value") if isinstance(value, Mapping) and value.get("__rl") else value
