"""Making one item of several: how their fields go together, and what wins where they clash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from convoq.contract.items import Item, PairedItem, origins
from convoq.contract.parameters import Parameters


class ClashHandling(Parameters):
    """`resolve_clash` is `addSuffix`, `preferLast`, or `preferInput` with a number; empty for the mode's default."""

    resolve_clash: str = ""
    merge_mode: Literal["deepMerge", "shallowMerge"] = "deepMerge"
    override_empty: bool = False

    @property
    def preferred(self) -> int | None:
        """The index of the input that wins; None for the last."""
        number = self.resolve_clash.removeprefix("preferInput")
        return int(number) - 1 if number.isascii() and number.isdigit() and int(number) else None

    def combined(self, entries: Sequence[Entry]) -> Item:
        """One item of several, the later over the earlier. `override_empty` means that nothing empty overrides."""
        json: dict[str, Any] = {}
        binary = {}
        paired: list[PairedItem] = []
        for entry in entries:
            self._merge(json, entry.item.json)
            binary.update(entry.item.binary or {})
            paired += [one for one in origins(entry.item.paired_item) if one not in paired]
        return Item(json, binary or None, paired)

    def _merge(self, into: dict[str, Any], fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if self.override_empty and key in into and value in (None, ""):
                continue
            into[key] = self._joined(into.get(key), value) if self.merge_mode == "deepMerge" else value

    def _joined(self, old: Any, new: Any) -> Any:
        """Objects and arrays go into each other, place by place; of all else the new counts. Neither is changed."""
        if isinstance(new, dict):
            joined = dict(old) if isinstance(old, dict) else {}
            self._merge(joined, new)
            return joined
        if isinstance(new, list):
            kept = old if isinstance(old, list) else []
            return [
                *(self._joined(kept[at] if at < len(kept) else None, one) for at, one in enumerate(new)),
                *kept[len(new) :],
            ]
        return new


@dataclass(frozen=True, slots=True)
class Entry:
    """An item, its place among those of its input, and the index of that input."""

    item: Item
    place: int
    input: int

    def without(self, field: str) -> Entry:
        json = {key: value for key, value in self.item.json.items() if key != field}
        return replace(self, item=Item(json, self.item.binary, self.item.paired_item))

    def suffixed(self) -> Entry:
        """Its fields with `_1` of the first input, `_2` of the second …"""
        json = {f"{key}_{self.input + 1}": value for key, value in self.item.json.items()}
        return replace(self, item=Item(json, self.item.binary, self.item.paired_item))


def entries(items: Sequence[Item], input_: int) -> list[Entry]:
    """The items of an input, each knowing its place in it."""
    return [Entry(Item(item.json, item.binary, PairedItem(at, input_)), at, input_) for at, item in enumerate(items)]
