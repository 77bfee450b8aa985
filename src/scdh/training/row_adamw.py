"""AdamW for parameters of which a step touches some rows only: the centres of very many classes."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


class RowAdamW(torch.optim.AdamW):
    """Where the gradient of a parameter [C, r] is sparse, only the rows g_j of the gradient change:

        m_j ← β₁ m_j + (1 − β₁) g_j,     v_j ← β₂ v_j + (1 − β₂) g_j²,     t_j ← t_j + 1
        θ_j ← (1 − η · decay) θ_j − η m_j / (1 − β₁^t_j) / (√(v_j / (1 − β₂^t_j)) + ε)

    So a row ends where AdamW brings it if it sees only the steps that touch this row. Difference from AdamW with zeros
    as gradients of the other rows: there m_j goes on moving a row that is not touched, and t_j is the number of all
    steps. Parameters with dense gradients are updated by AdamW.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        sparse = [(group, p, p.grad) for group in self.param_groups for p in group["params"] if has_row_gradient(p)]
        for group, parameter, gradient in sparse:
            self._update_rows(group, parameter, gradient.coalesce())
            parameter.grad = None
        loss = super().step(closure)
        for _, parameter, gradient in sparse:
            parameter.grad = gradient
        return loss

    def _update_rows(self, group: dict[str, Any], parameter: Tensor, gradient: Tensor) -> None:
        state, rows, g = self.state[parameter], gradient.indices()[0], gradient.values()
        if not state:
            state["step"] = torch.zeros(len(parameter), device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        (beta1, beta2), rate = group["betas"], group["lr"]
        steps = state["step"][rows].unsqueeze(1) + 1
        m = state["exp_avg"][rows].lerp(g, 1 - beta1)
        v = state["exp_avg_sq"][rows].lerp(g.square(), 1 - beta2)
        state["step"][rows], state["exp_avg"][rows], state["exp_avg_sq"][rows] = steps.squeeze(1), m, v
        moved = (m / (1 - beta1**steps)) / ((v / (1 - beta2**steps)).sqrt() + group["eps"])
        parameter[rows] = parameter[rows] * (1 - rate * group["weight_decay"]) - rate * moved


def has_row_gradient(parameter: Tensor) -> bool:
    return parameter.grad is not None and parameter.grad.is_sparse


def clipped_parameters(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """What ``clip_grad_norm_`` takes: in place of a parameter with a sparse gradient, a tensor whose gradient is the
    gradient's rows, in the same memory.
    """
    return [_row_carrier(p) if has_row_gradient(p) else p for p in parameters]


def _row_carrier(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad.coalesce()  # type: ignore[union-attr]
    carrier = torch.empty_like(gradient.values())
    parameter.grad, carrier.grad = gradient, gradient.values()
    return carrier
