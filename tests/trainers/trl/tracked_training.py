"""Two steps of a tiny policy that report to the trackers named on the command line."""

import sys

from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import tiny_trainer

if __name__ == "__main__":
    folder, *trackers = sys.argv[1:]
    arguments = tiny_trainer(
        folder, report_to=trackers, max_steps=2, logging_steps=1, run_name="tiny", project="tests"
    )
    KTAETrainer(**arguments, credit="trigrams").train()
