"""Whether a run's data is kept: by the setting, or by the workflow's own settings as n8n names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convoq.settings import RunData


def keeps_run_data(setting: RunData, workflow: Mapping[str, Any], *, failed: bool) -> bool:
    """`saveDataErrorExecution` and `saveDataSuccessExecution` (`all`, `none`) count before the setting."""
    own = workflow.get("saveDataErrorExecution" if failed else "saveDataSuccessExecution")
    if own in ("all", "none"):
        return bool(own == "all")
    return setting == "all" or (failed and setting == "errors")
