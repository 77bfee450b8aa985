"""Trained models: in memory, on disk and on the hub, and the engines that run them. Importing this needs no torch."""

from typing import Literal

Engine = Literal["auto", "torch", "openvino"]
