"""OpenVINO without its telemetry.

``import openvino`` by itself sends an event with an id of the user to Google Analytics, and writes that id below the
home folder, unless the user has opted out. Without the package ``openvino_telemetry`` it takes a stub that does
neither; so that package is hidden while OpenVINO is imported. Where the user's own program has imported
OpenVINO before, it was decided there.
"""

import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

_TELEMETRY = "openvino_telemetry"
_lock = threading.Lock()


def import_openvino() -> Any:
    """The module ``openvino``."""
    with _lock:
        if "openvino" in sys.modules:
            return import_module("openvino")
        hidden: dict[str, ModuleType] = {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name == _TELEMETRY or name.startswith(f"{_TELEMETRY}.")
        }
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment]  # makes the import of it fail
        try:
            return import_module("openvino")
        finally:
            del sys.modules[_TELEMETRY]
            sys.modules.update(hidden)
