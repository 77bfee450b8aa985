"""Discrete steps: codes that minimise a quadratic function, one bit after the other (DSDH, DISH)."""

import torch
from torch import Tensor

CONVEX_DIAGONAL = 320.0  # DISH's release: this diagonal of Q makes it convex in practice, so that rounds ascend


def ridge_weights(codes: Tensor, targets: Tensor, weight: float) -> Tensor:
    """argmin_W ‖Y − B W‖² + ν ‖W‖² = (BᵀB + ν I)⁻¹ BᵀY.

    Args:
        codes: B, float tensor [n, r] of ±1.
        targets: Y, float tensor [n, C].
        weight: ν, above 0.

    Returns:
        W, float tensor [r, C].
    """
    gram = codes.T @ codes + weight * torch.eye(codes.shape[1], dtype=codes.dtype, device=codes.device)
    return torch.linalg.solve(gram, codes.T @ targets)


def coordinate_descent(linear: Tensor, gram: Tensor, sweeps: int = 10, start: Tensor | None = None) -> Tensor:
    """Codes B that minimise Σ_i [ b_iᵀ G b_i − 2 q_iᵀ b_i ], each bit in turn with the others fixed (DCC):

        b_k = sgn( q_k − Σ_{l≠k} G_kl b_l )

    Without a start, bits that have no value yet count as 0.

    Args:
        linear: Q, float tensor [n, r].
        gram: G, symmetric float tensor [r, r].
        sweeps: passes over all bits; fewer where a pass changes none.
        start: B before the first pass (SDH), float tensor [n, r] of ±1; None: no bit has a value yet (DSDH).

    Returns:
        B, float tensor [n, r] of ±1.
    """
    others = gram - torch.diag(gram.diagonal())
    codes = torch.zeros_like(linear) if start is None else start.clone()
    for _ in range(sweeps):
        before = codes.clone()
        for k in range(linear.shape[1]):
            codes[:, k] = torch.where(linear[:, k] - codes @ others[:, k] >= 0, 1.0, -1.0)
        if torch.equal(codes, before):
            break
    return codes


def factorise(codes: Tensor, labels: Tensor, outputs: Tensor, weight: float) -> Tensor:
    """Codes H that are nearer to ‖r S − H Hᵀ‖² + μ Σ log(1 + e^{−h u}) than before, S = 2 Y Yᵀ − 1: DISH's step.

    Every bit is updated once. For a bit h, with H without it, one maximises hᵀ Q h + qᵀ h for Q = r S − H Hᵀ and
    q = μ u / 2, which is the choice of a set {h = +1}; it is half of the rows at every round. Q is never formed.

    Args:
        codes: H, float tensor [n, r] of ±1.
        labels: Y, float tensor [n, C] of 0 and 1.
        outputs: u, float tensor [n, r].
        weight: μ.
    """
    codes = codes.clone()
    for k in range(codes.shape[1]):
        others = codes.clone()
        others[:, k] = 0
        codes[:, k] = balanced_bit(codes[:, k], others, labels, weight / 2 * outputs[:, k])
    return codes


def balanced_bit(bit: Tensor, others: Tensor, labels: Tensor, linear: Tensor, rounds: int = 10) -> Tensor:
    """h that makes hᵀ Q h + qᵀ h no smaller than ``bit`` does, Q = r (2 Y Yᵀ − 1) − H Hᵀ.

    Args:
        bit: h before, [n] of ±1.
        others: H without this bit, [n, r] with a column of 0.
        labels: Y, [n, C].
        linear: q, [n].
        rounds: most passes; it ends where fewer than 0.1% of the rows change.
    """
    bits, ones = others.shape[1], torch.ones_like(bit)

    def product(v: Tensor) -> Tensor:
        return 2 * bits * labels @ (labels.T @ v) - bits * v.sum() - others @ (others.T @ v)

    def value(h: Tensor) -> float:
        return float(h @ product(h) + linear @ h)

    # With h = 2c − 1 the objective is 4 (cᵀ Q c + pᵀ c) and a constant.
    shifted = linear / 2 - product(ones)
    lift = CONVEX_DIAGONAL - (2 * bits * labels.sum(1) - bits)
    new = bit
    for _ in range(rounds):
        chosen = (new > 0).to(bit.dtype)
        slope = product(chosen) + shifted / 2 + lift * chosen
        before, new = new, torch.where(slope > slope.median(), 1.0, -1.0).to(bit.dtype)
        if (new != before).sum() < 0.001 * len(bit):
            break
    return new if value(new) >= value(bit) else bit
