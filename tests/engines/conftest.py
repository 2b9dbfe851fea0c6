"""What the end-to-end tests share."""

import pytest
from training import ktae


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A base model after some seconds of pretraining: most groups have both outcomes."""
    pytest.importorskip("transformers", reason="needs the extra 'trl' or 'verl'")
    from ktae.demo import SUMS
    from ktae.demo.pretrain import pretrain

    folder = tmp_path_factory.mktemp("model")
    model, tokenizer = pretrain(SUMS, seed=0, steps=400)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def command(request, base):
    """The command line that trains the small run of a test file (its `RECIPE` and `SMALL`) into a
    folder."""
    recipe = request.config.rootpath / "recipes/demo" / request.module.RECIPE

    def make(output, *more, processes=1):
        overrides = [*request.module.SMALL, f"model.path={base}"]
        return ktae("train", recipe, *overrides, "--output", output, *more, processes=processes)

    return make
