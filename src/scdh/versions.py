"""Versions of the packages that made a result."""

import platform
from importlib.metadata import PackageNotFoundError, version

from scdh._version import __version__


def versions() -> dict[str, str]:
    """Package → version, of those that numbers depend on."""
    installed = {"scdh": __version__, "python": platform.python_version()}
    for package in ("torch", "timm", "torchvision", "numpy"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
