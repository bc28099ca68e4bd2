"""What the process tells the application that it serves, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Control:
    """`refuse` is told why this process cannot work, however long it waits: it should end. `cut` ends all streams, each
    with a word about it."""

    refuse: Callable[[Exception], None]
    cut: Callable[[], None] = field(default=lambda: None)
