"""Which versions of what made a result."""

import platform
from importlib.metadata import PackageNotFoundError, version

from scdh._version import __version__


def versions() -> dict[str, str]:
    """What made these numbers."""
    found = {"scdh": __version__, "python": platform.python_version()}
    for package in ("torch", "timm", "torchvision", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
