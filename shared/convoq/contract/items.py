"""What goes over main connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec


class PairedItem(NamedTuple):
    """The input item that an output item came from: its index, that of the input it arrived on, and, where a node gives
    what it kept from an earlier run of its own, that run's index."""

    item: int
    input: int = 0
    run: int | None = None


Paired = int | PairedItem | Sequence[PairedItem] | None
"""A bare number is an item of the first input; None is not known."""


class Binary(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A file by reference: `id` opens it in the binary store, no node and no job carries its bytes. Sizes in bytes."""

    id: str
    mime_type: str
    file_name: str = ""
    file_extension: str = ""
    size_bytes: int = 0


@dataclass(slots=True)
class Item:
    """One item on a wire. Nodes never change the items that they were given."""

    json: dict[str, Any]
    binary: dict[str, Binary] | None = None
    paired_item: Paired = None


Outputs = list[list[Item]]
"""For each output of a node its items."""


def origins(paired: Paired) -> Sequence[PairedItem]:
    """All input items that are named, in one form."""
    if paired is None:
        return ()
    if isinstance(paired, int):
        return (PairedItem(paired),)
    return (paired,) if isinstance(paired, PairedItem) else paired
