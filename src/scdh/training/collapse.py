"""Detect collapsed centres and codes, and suggest a remedy."""

import warnings

import numpy as np
import torch
from torch import Tensor

from scdh.losses.label_masks import has_label
from scdh.methods.base import Method
from scdh.nets.network import Network

FULL = 0.75  # a larger share of unlabelled rows at one centre is a collapse, if labelled rows are spread
SHORT = 0.15  # a smaller ratio of unlabelled to labelled norms is a collapse, if distinct codes are few
PATIENCE = 3  # checks
LEAST_STEPS = 50  # before codes are checked: an epoch of few rows has one or two steps


class CollapseWarning(UserWarning):
    """Centres or codes are becoming equal."""


def compare_unlabelled(u: Tensor, labels: Tensor, codes: np.ndarray, centres: Tensor | None) -> dict[str, float]:
    """Mean norm, share of distinct codes and share of rows at the fullest centre, for labelled and unlabelled rows.

    Returns:
        Figures for the log; empty where the batch has fewer than 8 rows of either kind.
    """
    is_labelled = has_label(labels).cpu()
    parts = {"labelled": is_labelled, "unlabelled": ~is_labelled}
    if min(int(rows.sum()) for rows in parts.values()) < 8:
        return {}
    u = u.detach().float().cpu()
    figures = {}
    for name, rows in parts.items():
        figures[f"norm_{name}"] = float(u[rows].norm(dim=1).mean())
        figures[f"codes_{name}"] = len(np.unique(codes[rows.numpy()], axis=0)) / int(rows.sum())
        if centres is not None:
            nearest = torch.cdist(u[rows], centres.detach().float().cpu()).argmin(1)
            figures[f"fullest_{name}"] = float(torch.bincount(nearest).max()) / len(nearest)
    return figures


class CollapseWatch:
    """Warns once when centres shrink to 0 (paper, "Optimization"), every item gets the same code, or unlabelled rows
    gather at one point although labelled rows do not.

    Codes of an untrained network are often all equal, since fc7 is positive and the hash layer small. That is not a
    collapse unless they differed before, or are still equal after ``PATIENCE`` checks.
    """

    def __init__(self, net: Network, method: Method, steps_per_epoch: int = LEAST_STEPS) -> None:
        self.method = method
        self.steps_per_epoch, self.steps = steps_per_epoch, 0
        self.first_norm = self._centre_norm(net)
        self.has_warned = False
        self.have_differed = False
        self.equal_checks = 0
        self.gathered_checks, self.figures = 0, dict[str, float]()

    def _centre_norm(self, net: Network) -> float | None:
        centres = self.method.centres(net)
        return None if centres is None else float(centres.detach().norm(dim=1).mean())

    def check(self, net: Network, u: Tensor, labels: Tensor) -> str | None:
        """Look at ``u`` [B, r] and labels of a batch; returns the sentence of the warning, if there is one."""
        self.steps += self.steps_per_epoch
        codes = np.asarray(self.method.signs(net, u.detach().float().cpu().numpy())) >= 0
        self.figures = compare_unlabelled(u, labels, codes, self.method.centres(net))
        if self.has_warned:
            return None
        problem, advice = self._centre_problem(net), self.method.collapse_advice
        if problem is None and self.steps >= LEAST_STEPS:
            problem = self._code_problem(codes, labels)
        if problem is None and self.steps >= LEAST_STEPS:
            problem, advice = self._unlabelled_problem(), self.method.unlabelled_advice
        if problem is None:
            return None
        self.has_warned = True
        sentence = f"{problem}; {advice}."
        warnings.warn(sentence, CollapseWarning, stacklevel=2)
        return sentence

    def _unlabelled_problem(self) -> str | None:
        """Two checks in a row: the rows of one batch are few."""
        f = self.figures
        is_full = f.get("fullest_unlabelled", 0.0) >= max(FULL, 2 * f.get("fullest_labelled", 1.0))
        is_short = bool(f) and f["norm_unlabelled"] < SHORT * f["norm_labelled"]
        is_short = is_short and 2 * f["codes_unlabelled"] < f["codes_labelled"]
        self.gathered_checks = self.gathered_checks + 1 if is_full or is_short else 0
        if self.gathered_checks < 2:
            return None
        if is_full:
            where = f"{f['fullest_unlabelled']:.0%} of them are nearest to one centre"
        else:
            where = (
                f"their outputs have a mean norm of {f['norm_unlabelled']:.2g}, labelled rows {f['norm_labelled']:.2g}"
            )
        return f"Unlabelled rows are collapsing: {where}"

    def _centre_problem(self, net: Network) -> str | None:
        norm = self._centre_norm(net)
        if norm is None or self.first_norm is None or norm >= 0.1 * self.first_norm:
            return None
        return f"The centres are collapsing: their mean norm fell from {self.first_norm:.2g} to {norm:.2g}"

    def _code_problem(self, codes: np.ndarray, labels: Tensor) -> str | None:
        if len(codes) < 8 or len(torch.unique(labels, dim=0)) == 1:
            return None
        are_equal = bool((codes == codes[0]).all())
        self.have_differed, self.equal_checks = self.have_differed or not are_equal, self.equal_checks + are_equal
        if not are_equal or not (self.have_differed or self.equal_checks >= PATIENCE):
            return None
        return f"All {len(codes)} codes of the last batch are equal although their labels differ"
