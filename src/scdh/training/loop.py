"""The training loop, flat: readable in one sitting, one comment per step saying why."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scdh.config import TrainSettings
from scdh.data.batches.batch import Batch
from scdh.errors import ConfigError, TrainingError
from scdh.methods.base import Method, MethodData, Moment
from scdh.nets.network import Network
from scdh.progress import track
from scdh.runs.folder import RunFolder
from scdh.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from scdh.training.collapse import CollapseWatch
from scdh.training.log import RunLog
from scdh.training.optim import build_optimiser, build_schedule
from scdh.training.row_adamw import clipped_parameters
from scdh.training.teacher import MovingAverage


class TrainingStep(nn.Module):
    """Network and method as one module, so that a wrapper for several processes sees one forward per step."""

    def __init__(self, net: Network, method: Method) -> None:
        super().__init__()
        self.net, self.method = net, method

    def forward(self, batch: Batch, moment: Moment) -> dict[str, Tensor]:
        return self.method.step(self.net, batch, moment)


@dataclass(frozen=True)
class Trained:
    """The network to take codes from (the teacher, or averaged weights, where there are any), the one that learned by
    gradient where a teacher took its place, and how they were trained.
    """

    net: Network
    progress: Progress
    student: Network | None = None


def train_epochs(
    net: Network,
    method: Method,
    data: MethodData,
    batches: Callable[[int], Iterator[Batch]],
    steps_per_epoch: int,
    settings: TrainSettings,
    *,
    accelerator: Any,
    run: RunFolder | None = None,
    resume: bool = False,
    validate: Callable[[Network], float] | None = None,
    keep_best: Callable[[Network, Network | None], None] | None = None,
    each_epoch: Callable[[dict[str, float]], None] | None = None,
    prepare_seconds: float = 0.0,
    quiet: bool = False,
) -> Trained:
    """Train ``net`` with ``method``.

    Args:
        net: the network; its weights change in place.
        method: prepared by ``Method.prepare``.
        data: the training rows as the method sees them.
        batches: gives the batches of an epoch (from 0).
        steps_per_epoch: how many of them there are.
        settings: optimiser, schedule, epochs.
        accelerator: accelerate's, for device, precision and processes.
        run: folder that receives logs, and a checkpoint after every epoch.
        resume: continue from the checkpoint in ``run``.
        validate: gives the score by which an epoch is best.
        keep_best: called with the network to take codes from, and its student, when that score improved.
        each_epoch: called with the figures of every epoch, as in the log.
        prepare_seconds: time of ``Method.prepare``, which counts as time of the first epoch.
        quiet: no progress bars and no lines of epochs.
    """
    seed = torch.initial_seed()
    net.channels_last(accelerator.device)
    method.to(accelerator.device)
    reject_two_averages(method, settings)
    _reject_unsuited_rows(net, settings, accelerator.num_processes)
    teacher_decay = method.teacher_decay(settings.epochs * steps_per_epoch)
    decay, has_teacher = teacher_decay or settings.ema, teacher_decay > 0
    average = MovingAverage(net, decay, own_passes=has_teacher) if decay else None
    teacher, student = (average.net, net) if average is not None and has_teacher else (None, None)
    scored_net = net if average is None else average.net
    optimiser = build_optimiser(net, method, settings)
    schedule = build_schedule(optimiser, settings, steps_per_epoch)
    clipped = [*net.parameters(), *method.parameters()]
    collapse_watch = CollapseWatch(net, method, steps_per_epoch)
    modules: dict[str, nn.Module] = {"net": net, "method": method}
    if average is not None:
        modules["average"] = average.net

    # Everything random from here on (dropout) comes from torch's generator, which the checkpoint restores.
    progress, checkpoint = Progress(run_id="" if run is None else run.id), None if run is None else run.checkpoint
    if resume and checkpoint is not None and checkpoint.exists():
        progress, counters = load_checkpoint(checkpoint, modules, optimiser, schedule)
        if run is not None:
            run.check_part(checkpoint, progress.run_id)
        if average is not None:
            average.steps = counters["average"]
    is_main = accelerator.is_main_process
    log = RunLog(run if is_main else None, progress.epochs_done, quiet or not is_main)
    step_module, optimiser = accelerator.prepare(TrainingStep(net, method), optimiser)

    is_stopped = settings.patience is not None and _agreed(accelerator, _has_stopped_gaining(progress, settings))
    for epoch in range(progress.epochs_done, progress.epochs_done if is_stopped else settings.epochs):
        steps: list[dict[str, float]] = []
        started, items = time.perf_counter(), 0
        if accelerator.num_processes > 1:
            # Each process must drop different units. The seed depends on the epoch, because a checkpoint stores one
            # random state.
            process_seed = np.random.SeedSequence([seed, epoch, accelerator.process_index])
            torch.manual_seed(int(process_seed.generate_state(1)[0]))
        net.train()
        if average is not None:
            average.set_modes()
        epoch_batches = batches(epoch)
        if is_main and not quiet:
            epoch_batches = track(epoch_batches, steps_per_epoch, f"epoch {epoch + 1}/{settings.epochs}", unit="steps")
        for batch in epoch_batches:
            batch = batch.to(accelerator.device)
            moment = Moment(epoch, len(steps), steps_per_epoch, settings.epochs, teacher)
            with accelerator.autocast():
                losses = step_module(batch, moment)
            # A non-finite loss would spoil the weights in the update below, so check it before.
            values = accelerator.reduce(torch.stack([v.detach().float() for v in losses.values()]), "mean")
            parts = dict(zip(losses, values.tolist(), strict=True))
            if not all(map(math.isfinite, parts.values())):
                raise TrainingError(_not_finite_message(parts, epoch, len(steps), run))
            optimiser.zero_grad(set_to_none=True)
            accelerator.backward(losses["loss"])
            if settings.clip_norm is not None:
                has_rows = bool(net.head.row_parameters)
                accelerator.clip_grad_norm_(clipped_parameters(clipped) if has_rows else clipped, settings.clip_norm)
            optimiser.step()
            schedule.step()
            method.after_step(net, moment)  # before the average, which must follow what it changed
            if average is not None:
                average.update(net)
            steps.append({"epoch": epoch + 1, "step": len(steps) + 1, **parts})
            items += len(batch) * accelerator.num_processes
        if not steps:
            raise TrainingError(f"Epoch {epoch + 1} had no batch to train on; check the data's size and its images.")

        end = Moment(epoch, len(steps), steps_per_epoch, settings.epochs, teacher)
        method_figures = method.end_epoch(net, data, end)
        seconds = time.perf_counter() - started
        figures: dict[str, float] = {
            "epoch": epoch + 1,
            "seconds": seconds + (0.0 if epoch else prepare_seconds),
            "items_per_second": items / seconds,
            **_mean_losses(steps),
        }
        figures |= {"lr": float(schedule.get_last_lr()[-1]), **method_figures}
        net.eval()
        with torch.no_grad():
            collapse_watch.check(net, method.hash_outputs(net(batch.inputs)), batch.labels)
        figures |= collapse_watch.figures
        if is_main and validate is not None:
            is_due = (epoch + 1) % settings.validate_every == 0 or epoch + 1 == settings.epochs
            score = figures["validation_map"] = validate(scored_net.eval()) if is_due else math.nan
            if student is not None:
                figures["validation_map_student"] = validate(student.eval()) if is_due else math.nan
            if is_due and (progress.best_score is None or score > progress.best_score):
                progress.best_score, progress.best_epoch = score, epoch + 1
                if keep_best is not None:
                    keep_best(scored_net, student)

        progress.epochs_done = epoch + 1
        progress.history.append(figures)
        if each_epoch is not None:
            each_epoch(figures)
        # Logs first: a kill between the two repeats an epoch, and its log rows are then dropped and rewritten.
        log.write_epoch(steps, figures)
        if is_main and checkpoint is not None:
            counters = {} if average is None else {"average": average.steps}
            save_checkpoint(checkpoint, modules, optimiser, schedule, progress, counters)
        accelerator.wait_for_everyone()
        if settings.patience is not None and _agreed(accelerator, _has_stopped_gaining(progress, settings)):
            break
    log.close()
    return Trained(scored_net.eval(), progress, None if student is None else student.eval())


def reject_two_averages(method: Method, settings: TrainSettings) -> None:
    if settings.ema and method.teacher_decay(1):
        raise ConfigError(f"{method.about.title} averages the weights itself; set train.ema=0.")


def _reject_unsuited_rows(net: Network, settings: TrainSettings, processes: int) -> None:
    if net.head.row_parameters and (settings.optimiser != "adamw" or processes > 1):
        raise ConfigError("method.sampled needs train.optimiser=adamw and a single process; or set it to none.")


def _has_stopped_gaining(progress: Progress, settings: TrainSettings) -> bool:
    """Whether the last ``patience`` validation scores brought no better one."""
    if progress.best_epoch is None or settings.patience is None:
        return False
    return progress.epochs_done - progress.best_epoch >= settings.patience * settings.validate_every


def _agreed(accelerator: Any, is_so: bool) -> bool:
    """Broadcast the decision of rank 0, which alone validates."""
    votes = accelerator.reduce(torch.tensor(float(is_so), device=accelerator.device), "sum")
    return float(votes) > 0


def _mean_losses(steps: list[dict[str, float]]) -> dict[str, float]:
    return {key: sum(step[key] for step in steps) / len(steps) for key in steps[0] if key not in ("epoch", "step")}


def _not_finite_message(losses: dict[str, float], epoch: int, step: int, run: RunFolder | None) -> str:
    parts = ", ".join(f"{name} {value:.3g}" for name, value in losses.items())
    has_checkpoint = run is not None and run.checkpoint.exists()
    checkpoint = f" the last good checkpoint is {str(run.checkpoint)!r};" if run is not None and has_checkpoint else ""
    return (
        f"The loss is not a finite number in epoch {epoch + 1}, step {step + 1} ({parts});{checkpoint} "
        "lower train.lr_head and train.lr_trunk, or set train.clip_norm=1."
    )
