"""verl's FSDP engine on the CPU, and a record of what its updates were given."""

import os
import time
from pathlib import Path

import torch

RECORD = "KTAE_TEST_RECORD"
"""Environment: a folder that each update's rows are written to; not set: nothing is."""

LISTS = ("responses", "response_mask", "advantages", "rm_scores")


def make_engine(engine):
    class RecordingEngine(engine):
        def train_batch(self, data, loss_function):
            if os.environ.get(RECORD):
                _record(data, Path(os.environ[RECORD]))
            return super().train_batch(data, loss_function)

    return RecordingEngine


def _record(data, folder):
    """One file an update and rank, of the rows that the loss is about to see."""
    rows = {name: [row.tolist() for row in data[name].unbind()] for name in LISTS}
    infos = [fields["reward_extra_info"] for fields in data["extra_fields"]]
    rows |= {"uid": list(data["uid"]), "infos": infos}
    torch.save(rows, folder / f"{time.time_ns()}-rank{torch.distributed.get_rank()}.pt")
