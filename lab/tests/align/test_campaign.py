"""What is run to measure the real model's alignment again."""

import pandas as pd

from ktae_lab.align import campaign
from ktae_lab.align.summary import Measured
from ktae_lab.study import matrix


def test_a_measurement_that_is_there_is_kept(tmp_path):
    asked = []

    def measured_at(step, run):
        asked.append((step, run.name))
        table = pd.DataFrame([{"measurement": f"step{step}", "x": step}])
        return Measured(table, table, table)

    joined = campaign.collect(tmp_path, (0, 10), measured_at)
    assert joined.products["measurement"].tolist() == ["step0", "step10"]
    assert campaign.collect(tmp_path, (0, 10, 20), measured_at).about["x"].tolist() == [0, 10, 20]
    assert asked == [(0, "run"), (10, "run"), (20, "run")]


def test_the_run_is_not_one_of_the_study():
    assert campaign.SEED not in matrix.load(campaign.ARMS).seeds
