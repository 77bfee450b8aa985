"""Settings, data and split of a run that was trained before."""

import os
from dataclasses import dataclass

from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.runs.data_paths import located
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of


@dataclass(frozen=True, eq=False)
class RunData:
    """What a run was trained on; ``config`` says where the data are now."""

    config: RunConfig
    source: Source
    protocol: Protocol


def open_run_data(
    run: RunFolder,
    data: str | None = None,
    root: str | os.PathLike[str] | None = None,
    *,
    remaining: bool = False,
) -> RunData:
    """Open the data of a run.

    Args:
        run: its folder.
        data: the same data at another place; None: where they were, or at the same place relative to the run.
        root: folder of a named data set, or folder that paths in a table are relative to; None: as in training.
        remaining: if files were added, renamed or removed, take the split of those that are still there.

    Raises:
        ChangedDataError: the data are not those of the run.
    """
    config = run.config()
    config = config.model_copy(update={"data": located(config.data, run.data_paths(), run.path, data, root)})
    source = source_of(config)
    return RunData(config, source, run.protocol(source, remaining=remaining))
