"""A user's training program with the two lines of the hook, and with its steps, phases and pauses marked."""

from __future__ import annotations

import leadline.torch as leadline_torch
from evals.jobs.toy import Toy, arguments

watch = leadline_torch.watch()


def main() -> None:
    """Train to the last step."""
    toy = Toy(arguments())
    for number, batch in enumerate(watch.data(toy.batches())):
        with watch.step(number) as step:
            with step.forward():
                loss = toy.forward(batch)
            with step.backward():
                toy.backward(loss)
            toy.optimizer.step()
            toy.mean_loss(loss)
            if toy.saves_after(number):
                with step.checkpoint():
                    toy.save()
        toy.done(number)
        if toy.evaluates_after(number):
            with watch.span("evaluation"):
                toy.evaluate()
    toy.end()


if __name__ == "__main__":
    main()
