"""The hook for training programs: what every rank does, told to Leadline without ever waiting for it.

    import leadline.torch as leadline_torch

    watch = leadline_torch.watch()
    for batch in watch.data(loader):
        with watch.step() as step:
            with step.forward():
                loss = model(batch).loss
            with step.backward():
                loss.backward()
            optimizer.step()
            step.loss = loss

Standard library and torch only, because it runs inside somebody else's job. Records go to event rings in memory
(docs/formats/ring.md), which the agent reads; docs/how-to/watch-a-pytorch-job.md says how to use it and what it costs.
"""

from leadline.torch.hook import Watch, watch
from leadline.torch.identity import Identity, identity_from
from leadline.torch.steps import Step

__all__ = ["Identity", "Step", "Watch", "identity_from", "watch"]
