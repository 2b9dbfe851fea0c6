"""A tiny policy, prompts and a reward."""

import pytest

from ktae.trainers.trl.gradient_check import tiny_trainer


@pytest.fixture
def trainer_arguments(tmp_path):
    """Keyword arguments of a trainer on one CPU process; `config` entries replace the defaults."""

    def make(**config):
        return tiny_trainer(str(tmp_path / "out"), **config)

    return make
