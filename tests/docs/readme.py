"""The parts of README.md that are made: `python -m tests.docs.readme` (`make docs`) writes them."""

from __future__ import annotations

from convoq.cli import settings_table
from tests.stack import ROOT

README = ROOT / "README.md"
BEGIN = "<!-- settings: made by `make docs` -->\n"
END = "<!-- /settings -->\n"


def made(text: str) -> str:
    """The text with its settings table as the code has it now."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "README.md has lost its settings markers"
    return f"{before}{BEGIN}{settings_table.markdown()}{END}{after}"


if __name__ == "__main__":
    README.write_text(made(README.read_text()))
    (ROOT / "deploy/env.example").write_text(settings_table.env_example())
