"""A user's training program with one line of the hook and nothing else of Leadline."""

from __future__ import annotations

# ruff: noqa: E702, I001  one line, as a user might write it
from evals.jobs.toy import Toy, arguments
import leadline.torch; leadline.torch.watch()  # fmt: skip


def main() -> None:
    """Train to the last step."""
    toy = Toy(arguments())
    for number, batch in enumerate(toy.batches()):
        loss = toy.forward(batch)
        toy.backward(loss)
        toy.optimizer.step()
        toy.mean_loss(loss)
        toy.done(number)
        if toy.saves_after(number):
            toy.save()
        if toy.evaluates_after(number):
            toy.evaluate()
    toy.end()


if __name__ == "__main__":
    main()
