"""What the shell offers for a half-typed word (`scdh --install-completion`): names of methods, presets and data sets.

Called at every press of Tab, so nothing here may import torch.
"""

from collections.abc import Iterable


def complete_method(incomplete: str) -> list[str]:
    from scdh.methods.registry import method_names

    return _that_begin_with(incomplete, method_names())


def complete_preset(incomplete: str) -> list[str]:
    from scdh.config import preset_names

    return _that_begin_with(incomplete, preset_names())


def complete_data(incomplete: str) -> list[str]:
    """Names of data sets; if none matches, or the word is empty, the shell offers files instead."""
    from scdh.data.named.benchmarks import DATASETS

    return _that_begin_with(incomplete, DATASETS) if incomplete else []


def _that_begin_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
