"""What the end-to-end tests share."""

import fcntl
import os

import pytest
from training import ktae


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """The folder of a base model of sums after some seconds of pretraining: most groups have both
    outcomes. The processes of one run share it, and the first that comes makes it."""
    from ktae.experiments.demo.pretrain import pretrain
    from ktae.files.atomic import atomic_folder

    shared = tmp_path_factory.getbasetemp()
    folder = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "short_base"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with atomic_folder(folder) as made:
                for part in pretrain(seed=0, steps=400):
                    part.save_pretrained(made)
    return folder


@pytest.fixture(scope="module")
def command(request, base):
    """The command line that trains the small run of a test file (its `RECIPE` and `SMALL`) into a
    folder."""
    recipe = request.config.rootpath / "recipes/demo" / request.module.RECIPE

    def make(output, *more, processes=1):
        overrides = [*request.module.SMALL, f"model.path={base}"]
        return ktae("train", recipe, *overrides, "--output", output, *more, processes=processes)

    return make
