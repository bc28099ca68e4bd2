"""The files that are made from the code: `python -m tests.docs.made` (`make docs`) writes them."""

from __future__ import annotations

from convoq.cli import node_table, settings_table
from tests.stack import ROOT

INTRO = """# Settings

Environment variables, read once at the start. For `docker compose` put them into a `.env` file beside
`docker-compose.yml`. This table is made by `make docs`.

"""


def made() -> dict[str, str]:
    """Path -> text, as the code has it now."""
    return {
        "deploy/settings.md": INTRO + settings_table.markdown(),
        "docs/nodes.md": node_table.markdown(),
        "deploy/env.example": settings_table.env_example(),
    }


if __name__ == "__main__":
    for path, text in made().items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)
