"""The training loop, flat: readable in one sitting, one comment per step saying why."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scdh.config import TrainSettings
from scdh.data.batches.loaders import Batch
from scdh.errors import ConfigError, TrainingError
from scdh.methods.base import Method, Moment
from scdh.nets.network import Network
from scdh.progress import track
from scdh.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from scdh.training.collapse import CollapseWatch
from scdh.training.log import RunLog
from scdh.training.optim import build_optimiser, build_schedule
from scdh.training.teacher import MovingAverage


class TrainingStep(nn.Module):
    """Network and method as one module, so that a wrapper for several processes sees one forward per step."""

    def __init__(self, net: Network, method: Method) -> None:
        super().__init__()
        self.net, self.method = net, method

    def forward(self, batch: Batch, moment: Moment) -> dict[str, Tensor]:
        return self.method.step(self.net, batch, moment)


@dataclass(frozen=True)
class Fitted:
    """The network to take codes from (the teacher, or averaged weights, where there are any), the one that learned by
    gradient where a teacher took its place, and how they got there.
    """

    net: Network
    progress: Progress
    student: Network | None = None


def fit(
    net: Network,
    method: Method,
    batches: Callable[[int], Iterator[Batch]],
    steps_per_epoch: int,
    settings: TrainSettings,
    *,
    accelerator: Any,
    folder: Path | None = None,
    resume: bool = False,
    validate: Callable[[Network], float] | None = None,
    keep_best: Callable[[Network, Network | None], None] | None = None,
    quiet: bool = False,
) -> Fitted:
    """Train ``net`` with ``method`` on ``batches(epoch)``.

    ``folder`` receives logs and ``last.safetensors`` after every epoch; ``validate`` gives the score that
    decides what is best, and ``keep_best`` is called with the network to take codes from, and its student, when it
    improved.
    """
    seed = torch.initial_seed()
    net.channels_last(accelerator.device)
    refuse_two_averages(method, settings)
    decay, taught = method.teacher_decay or settings.ema, method.teacher_decay > 0
    average = MovingAverage(net, decay, own_passes=taught) if decay else None
    teacher, student = (average.net, net) if average is not None and taught else (None, None)
    scored = net if average is None else average.net
    optimiser = build_optimiser(net, settings)
    schedule = build_schedule(optimiser, settings, steps_per_epoch)
    watch = CollapseWatch(net)
    modules: dict[str, nn.Module] = {"net": net, "method": method}
    if average is not None:
        modules["average"] = average.net

    # Everything random from here on (dropout) comes from torch's generator, which the checkpoint restores.
    progress, last = Progress(), None if folder is None else folder / "last.safetensors"
    if resume and last is not None and last.exists():
        progress, counters = load_checkpoint(last, modules, optimiser, schedule)
        if average is not None:
            average.steps = counters["average"]
    main = accelerator.is_main_process
    log = RunLog(folder if main else None, progress.epochs_done, quiet or not main)
    step, optimiser = accelerator.prepare(TrainingStep(net, method), optimiser)

    for epoch in range(progress.epochs_done, settings.epochs):
        rows: list[dict[str, float]] = []
        started, items = time.perf_counter(), 0
        if accelerator.num_processes > 1:
            # Each process must drop other units than the rest; drawn from the epoch, as a checkpoint knows one process.
            own = np.random.SeedSequence([seed, epoch, accelerator.process_index])
            torch.manual_seed(int(own.generate_state(1)[0]))
        net.train()
        if average is not None:
            average.ready()
        shown = batches(epoch)
        if main and not quiet:
            shown = track(shown, steps_per_epoch, f"epoch {epoch + 1}/{settings.epochs}", unit="steps")
        for batch in shown:
            batch = batch.to(accelerator.device)
            with accelerator.autocast():
                losses = step(batch, Moment(epoch + len(rows) / steps_per_epoch, teacher))
            # A loss that is no number would poison the weights at the update below: look before, not after.
            values = accelerator.reduce(torch.stack([v.detach().float() for v in losses.values()]), "mean")
            parts = dict(zip(losses, values.tolist(), strict=True))
            if not all(map(math.isfinite, parts.values())):
                raise TrainingError(_not_finite(parts, epoch, len(rows), last))
            optimiser.zero_grad(set_to_none=True)
            accelerator.backward(losses["loss"])
            if settings.clip_norm is not None:
                accelerator.clip_grad_norm_(net.parameters(), settings.clip_norm)
            optimiser.step()
            schedule.step()
            method.after_step(net, epoch)  # such as centre norms in the warm-up; the average follows what it left
            if average is not None:
                average.update(net)
            rows.append({"epoch": epoch + 1, "step": len(rows) + 1, **parts})
            items += len(batch) * accelerator.num_processes
        if not rows:
            raise TrainingError(f"Epoch {epoch + 1} had no batch to train on; check the data's size and its images.")

        ended = method.end_epoch(net, epoch)
        seconds = time.perf_counter() - started
        figures: dict[str, float] = {
            "epoch": epoch + 1,
            "seconds": seconds,
            "items_per_second": items / seconds,
            **_mean_of(rows),
        }
        figures |= {"lr": float(schedule.get_last_lr()[-1]), **ended}
        net.eval()
        with torch.no_grad():
            watch.look(net, method.real_codes(net(batch.inputs)), batch.labels)
        if main and validate is not None:
            due = (epoch + 1) % settings.validate_every == 0 or epoch + 1 == settings.epochs
            score = figures["validation_map"] = validate(scored.eval()) if due else math.nan
            if student is not None:
                figures["validation_map_student"] = validate(student.eval()) if due else math.nan
            if due and (progress.best_score is None or score > progress.best_score):
                progress.best_score, progress.best_epoch = score, epoch + 1
                if keep_best is not None:
                    keep_best(scored, student)

        progress.epochs_done = epoch + 1
        progress.history.append(figures)
        # Logs first: a kill between the two repeats an epoch, and its log rows are then dropped and rewritten.
        log.epoch(rows, figures)
        if main and last is not None:
            counters = {} if average is None else {"average": average.steps}
            save_checkpoint(last, modules, optimiser, schedule, progress, counters)
        accelerator.wait_for_everyone()
    log.close()
    return Fitted(scored.eval(), progress, None if student is None else student.eval())


def refuse_two_averages(method: Method, settings: TrainSettings) -> None:
    if method.teacher_decay and settings.ema:
        raise ConfigError(f"{method.about.title} averages the weights itself (method.decay); set train.ema=0.")


def _mean_of(rows: list[dict[str, float]]) -> dict[str, float]:
    return {k: sum(r[k] for r in rows) / len(rows) for k in rows[0] if k not in ("epoch", "step")}


def _not_finite(losses: dict[str, float], epoch: int, step: int, last: Path | None) -> str:
    parts = ", ".join(f"{k} {v:.3g}" for k, v in losses.items())
    kept = ""
    if last is not None and last.exists():
        kept = f" the last good checkpoint is {str(last)!r};"
    return (
        f"The loss is not a finite number in epoch {epoch + 1}, step {step + 1} ({parts});{kept} "
        "lower train.lr_head and train.lr_trunk, or set train.clip_norm=1."
    )
