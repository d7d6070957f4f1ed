"""The training loop: it can be stopped anywhere, and goes on as if it had not been."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.engine.runs import RunFolder, Trained
from xcnorm.engine.signals import stop_requests
from xcnorm.engine.trainer import Trainer
from xcnorm.errors import UserError

Progress = Callable[[int, int, float], None]
"""Is told the steps done, the steps in all, and the latest loss."""

_LOG_LINES = 200
_TIMES = 10  # how often the network is validated, and checkpoints are written, unless the experiment says
_PATIENCE = 60.0  # seconds of a method's own work between steps after which a checkpoint is written


def train(
    trainer: Trainer,
    folder: RunFolder,
    progress: Progress | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Train to the end, from the newest checkpoint if there is one, and keep the selected weights in the run's folder.

    A request to stop (Ctrl-C, or the signal that cluster schedulers send) is answered after the current step, with a
    checkpoint.

    Args:
        trainer: What is trained.
        folder: Where checkpoints, log and weights go.
        progress: Is told how far it is.
        notify: Is told in words what happens.

    Raises:
        KeyboardInterrupt: It was asked to stop; the same call goes on from there.
        UserError: The loss or a weight is no longer finite, or the disk is full.
    """
    run, world, steps = trainer.experiment.run, trainer.world, trainer.steps
    log_every = max(1, steps // _LOG_LINES)
    validate_every = run.evaluate_every or max(1, steps // _TIMES)
    save_every = run.checkpoint_every or max(1, steps // _TIMES)

    def due(every: int) -> bool:
        return trainer.step % every == 0 or trainer.step == steps

    _resume(trainer, folder, notify)
    saved = time.perf_counter()
    started = saved - trainer.seconds
    with stop_requests() as stopped:
        while trainer.step < steps:
            loss = trainer.advance()
            stepped = loss is not None  # else the method has done work of its own before the next step
            trainer.seconds = time.perf_counter() - started
            if loss is not None and due(log_every):
                _log(trainer, folder, loss.item())
                if progress is not None:
                    progress(trainer.step, steps, loss.item())
            if stepped and due(validate_every) and world.leads:
                folder.log({"step": trainer.step, "validation": trainer.validate()})
            # A method's work may take longer than all steps; several processes would have to agree on when to save it.
            save = due(save_every) if stepped else world.size == 1 and time.perf_counter() - saved > _PATIENCE
            stop = world.agree(stopped()) if world.size == 1 or due(log_every) else False
            if save or stop:
                _save(trainer, folder)
                saved = time.perf_counter()
            if stop:
                raise KeyboardInterrupt
    selected = _keep_weights(trainer, folder) if world.leads else {}
    return Trained(selected, steps, trainer.seconds)


def _resume(trainer: Trainer, folder: RunFolder, notify: Callable[[str], None]) -> None:
    found = load_checkpoint(folder.checkpoints, notify)
    if found is not None:
        step, state = found
        try:
            trainer.load_state_dict(step, state)
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"the checkpoints in {folder.checkpoints} do not fit this training: {reason}; delete them to begin anew"
            ) from error
        notify(f"going on from step {step} of {trainer.steps}")
    if trainer.world.leads:
        folder.cut_log(trainer.step)
    trainer.world.wait()


def _save(trainer: Trainer, folder: RunFolder) -> None:
    if not all(bool(parameter.isfinite().all()) for parameter in trainer.model.parameters()):
        raise _diverged(f"a weight is no longer finite after step {trainer.step}")  # the checkpoint before it is kept
    state = trainer.state_dict()
    if trainer.world.leads:
        save_checkpoint(folder.checkpoints, trainer.step, state)


def _log(trainer: Trainer, folder: RunFolder, loss: float) -> None:
    if not math.isfinite(loss):
        raise _diverged(f"the loss became {loss} in step {trainer.step}")
    if trainer.world.leads:
        rate = float(trainer.optimiser.param_groups[0]["lr"])
        epoch = trainer.feed.epoch
        seconds = round(trainer.seconds, 3)
        folder.log({"step": trainer.step, "epoch": epoch, "loss": loss, "learning_rate": rate, "seconds": seconds})


def _diverged(what: str) -> UserError:
    return UserError(f"{what}; try a smaller optimiser.learning_rate, or run.precision='float32'")


def _keep_weights(trainer: Trainer, folder: RunFolder) -> dict[str, int]:
    """Save the weights of every selection rule; the step of each."""
    found = {"last": {"weights": trainer.tested.state_dict(), "step": trainer.step}, **trainer.best}
    rules = [rule for rule in trainer.experiment.run.selection if rule in found]
    for rule in rules:
        folder.save_weights(rule, found[rule]["weights"])
    return {rule: found[rule]["step"] for rule in rules}
