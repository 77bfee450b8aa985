"""How many rows train, validate, are queries and are searched: printed before the work of a command begins."""

from typing import TYPE_CHECKING, Any

from scdh.cli.output import print_line

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.data.protocol import Protocol
    from scdh.data.source import Source


def print_split(config: "RunConfig", source: "Source | None", *, quiet: bool) -> tuple["Source", dict[str, Any]]:
    """Print the split that a run will have, unless ``quiet``.

    Returns:
        The run's data, opened here where ``source`` is None, and what ``--json`` tells of the split.
    """
    from scdh.runs.protocol import protocol_of, source_of

    source = source_of(config) if source is None else source
    protocol = protocol_of(config, source)
    if not quiet:
        print_line(f"Split: {protocol.describe()}.")
    return source, split_json(protocol)


def split_json(protocol: "Protocol") -> dict[str, Any]:
    """The split under the keys that all commands use."""
    return {"split_counts": protocol.counts, "split_about": protocol.about}
