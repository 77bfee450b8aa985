"""Tests, and programs that try more: `python -m tests.attack` and others."""

import os

os.environ["SCDH_FEATURE_DIR"] = ""  # features stay in the folder of each run, so tests do not depend on each other
