"""Names of what computes codes (:mod:`scdh.engine`), where they are needed without torch."""

from typing import Literal

Engine = Literal["auto", "torch", "openvino"]
