"""Parameters are declared once: the schema reads a file's values, says what counts, and documents."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import ValidationError

from convoq.contract.items import PairedItem, origins
from convoq.contract.parameters import Parameters, parameter


class Waits(Parameters):
    resume: Literal["timeInterval", "specificTime"] = parameter("timeInterval", title="Resume")
    amount: float = parameter(5, when={"resume": "timeInterval"}, ge=0)
    date_time: str = parameter("", when={"resume": ["specificTime"]})
    old_unit: str = parameter("hours", versions=(1, 1))
    api_key: str = parameter("", secret=True)


def read(version: float = 1.1, **given: object) -> Waits:
    return Waits.model_validate(given, context={"version": version})


def test_defaults_null_and_numbers_for_texts() -> None:
    assert read() == Waits()
    assert read(amount=None, dateTime=None).amount == 5
    assert read(resume="specificTime", dateTime=12).date_time == "12"
    assert read(amount="2.5").amount == 2.5


def test_what_does_not_count_is_as_not_given_whatever_its_value() -> None:
    assert read(resume="specificTime", amount=-3).amount == 5
    assert read(dateTime="2030").date_time == ""
    with pytest.raises(ValidationError):
        read(amount=-3)


def test_versions() -> None:
    assert read(1, oldUnit="days").old_unit == "days"
    assert read(1.1, oldUnit="days").old_unit == "hours"


def test_a_resource_locator_is_its_value() -> None:
    assert read(resume="specificTime", dateTime={"__rl": True, "mode": "id", "value": "2030"}).date_time == "2030"


def test_what_is_not_known() -> None:
    assert list(Waits.unknown({"amount": 1, "dateTime": "", "date_time": "", "zoo": 1})) == ["zoo"]


def test_the_schema_describes() -> None:
    properties = Waits.describe()["properties"]
    assert properties["amount"]["when"] == {"resume": ["timeInterval"]}
    assert properties["oldUnit"]["versions"] == [1, 1]
    assert properties["apiKey"]["secret"] is True
    assert (
        properties["resume"]["enum"] == ["timeInterval", "specificTime"] and properties["resume"]["title"] == "Resume"
    )


def test_origins_of_an_item() -> None:
    assert list(origins(None)) == []
    assert list(origins(3)) == [PairedItem(3, 0)]
    assert list(origins(PairedItem(1, 2))) == [PairedItem(1, 2)]
    assert list(origins([PairedItem(1), PairedItem(2, 1)])) == [PairedItem(1), PairedItem(2, 1)]
