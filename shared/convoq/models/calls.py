"""Tool calls, put together from the fragments in which servers send them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import msgspec

from convoq.contract.model import ToolCall

MAX_CALLS = 100
"""Tool calls in one reply: more is a model gone wild."""
MAX_ID_CHARS = 64
MAX_NAME_PARTS, MAX_NAME_CHARS = 64, 512
MAX_COMPARED_CHARS = 64 << 10
"""Of arguments that are looked at while they come: a hostile server's fragments must not cost more each time."""
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Parts:
    index: int | str | None
    id: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    size: int = 0
    extra: Any = None

    def is_whole(self) -> bool:
        return self.size <= MAX_COMPARED_CHARS and _is_json("".join(self.arguments))


class Calls:
    """`known` are the names of the tools that were offered: by them a name's parts are told from whole names.

    A name, an id and arguments may come whole, once or again in each fragment, in parts, or as all that there is so
    far. Servers leave `index` or `id` out, or give every call the same; a call begins where a name does.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = known
        self._calls: list[_Parts] = []

    def add(self, index: int | str | None, id: str | None, name: str | None, arguments: Any, extra: Any = None) -> None:
        if arguments is not None and not isinstance(arguments, str):
            arguments = _encode(arguments).decode()
        call = self._call_of(index, id or "", name or "")
        if call is None:
            call = _Parts(index, (id or "")[:MAX_ID_CHARS])
            if len(self._calls) <= MAX_CALLS:
                self._calls.append(call)
        elif id:
            call.id = _id(call.id, id)
        if name and len(call.names) < MAX_NAME_PARTS:
            call.names.append(name[:MAX_NAME_CHARS])
        if arguments:
            call.arguments.append(arguments)
            call.size += len(arguments)
        if extra is not None:
            call.extra = extra

    def finish(self) -> Iterator[tuple[ToolCall, Any]]:
        """Whole calls, and what the server added to each. What has neither a name nor arguments was none."""
        for call in self._calls:
            if call.names or call.arguments:
                id = call.id or f"call_{uuid4().hex[:24]}"
                yield ToolCall(id, self._name(call.names), _arguments(call.arguments)), call.extra

    def _call_of(self, index: int | str | None, id: str, name: str) -> _Parts | None:
        """The call that a fragment belongs to, None where it begins one."""
        if not self._calls:
            return None
        found: _Parts | None = self._calls[-1]
        if index is not None:
            found = next((call for call in reversed(self._calls) if call.index == index), None)
            if found is None and not id and not name:
                return self._calls[-1]
        elif id:
            found = next((call for call in self._calls if call.id == id), found)
        same = found is None or not name or not found.names or self._same(found, id, name, index is not None)
        return found if same else None

    def _same(self, call: _Parts, id: str, name: str, indexed: bool) -> bool:
        """Whether a fragment with a name is of a call that has (a part of) one."""
        if id and id == call.id:
            return True
        so_far = "".join(call.names)
        if name == so_far:  # repeated, or the same tool once more
            return ((call.size > 0 or not id) and not call.is_whole()) or (indexed and not id)
        if so_far in self._known:
            return False
        goes_on = any(known.startswith(so_far + name) for known in self._known)
        return goes_on or (name in self._known and name.startswith(so_far)) or (indexed and not id)

    def _name(self, parts: Sequence[str]) -> str:
        if len(parts) < 2:
            return "".join(parts)
        joined, last = "".join(parts), parts[-1]
        for name in (joined, last, parts[0]):
            if name in self._known:
                return name
        return last if all(last.startswith(part) for part in parts) else joined


def _id(known: str, part: str) -> str:
    if part.startswith(known):
        return part
    again = known.startswith(part) or known[:3] == part[:3]  # some servers make a new one for each fragment
    return known if again or len(known + part) > MAX_ID_CHARS else known + part


def _arguments(parts: Sequence[str]) -> str:
    """The first reading that is JSON, else all that came: the parts of one text, after an empty object that only held
    the place, or the longest part where the whole was sent again or bit by bit with all before."""
    joined = "".join(parts)
    if len(parts) < 2 or _is_json(joined):
        return joined or "{}"
    rest = "".join(parts[1:]) if parts[0].strip() == "{}" else ""
    return next((text for text in (rest, max(parts, key=len)) if text and _is_json(text)), joined)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
