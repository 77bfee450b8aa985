"""Random perturbations of vectors; images are perturbed by augmentation."""

import torch
from torch import Tensor
from torch.nn.functional import dropout


def perturbed(inputs: Tensor, noise: float, input_dropout: float, rows: Tensor | None = None) -> Tensor:
    """Vectors [B, d] with noise and with some features set to 0; other inputs unchanged.

    § The paper speaks of images only. The noise follows each feature's own deviation in the batch, so that it means the
    same for embeddings of any scale, and a feature that never varies gets none.

    Args:
        inputs: float [B, d], or images.
        noise: deviation of the Gaussian noise, in deviations of each feature.
        input_dropout: share of features set to 0.
        rows: bool [B], the rows to perturb; None: all.
    """
    if not inputs.is_floating_point() or inputs.ndim != 2:
        return inputs
    if rows is not None:
        inputs = inputs.clone()
        inputs[rows] = perturbed(inputs[rows], noise, input_dropout)
        return inputs
    if noise:
        deviation = (inputs - inputs.mean(0)).square().mean(0).sqrt()  # Tensor.std takes 20 times as long along rows
        inputs = inputs + noise * deviation * torch.randn_like(inputs)
    return dropout(inputs, input_dropout) if input_dropout else inputs
