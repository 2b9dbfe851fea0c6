"""What the end-to-end tests share."""

import pytest

# Not "trl": without it, that would find the folder tests/trl
pytest.importorskip("trl.trainer", reason="needs the extra 'trl'")

from ktae.demo.pretrain import pretrain


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A base model after a few seconds of pretraining: it ends its answers, and some are right."""
    folder = tmp_path_factory.mktemp("model")
    model, tokenizer = pretrain(seed=0, steps=300)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
