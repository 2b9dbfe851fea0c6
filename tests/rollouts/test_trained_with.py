"""What a trainer stores beside its rollouts, and what a reader makes of it."""

import json

import pytest

from ktae import InputError
from ktae._version import __version__
from ktae.estimators import Centred, Function, from_section, preset
from ktae.rollouts.trained_with import FILE, TrainedWith


@pytest.mark.parametrize(
    ("estimator", "text"),
    [(None, None), (preset("trigrams"), "trigrams"), (Function(max), "Function(max)")],
)
def test_what_is_stored_is_read(tmp_path, estimator, text):
    stored = TrainedWith.of(estimator, ["accuracy", "code"], 0.5)
    stored.write(tmp_path / "rollouts")
    assert TrainedWith.read(tmp_path / "rollouts") == stored
    assert TrainedWith.read(tmp_path) is None
    assert json.loads((tmp_path / "rollouts" / FILE).read_text()) == {
        "ktae": __version__,
        "estimator": text,
        "correctness": ["accuracy", "code"],
        "threshold": 0.5,
    }


def test_settings_and_transforms_are_a_section():
    estimator = Centred(preset("ktae", h3=0.5))
    assert from_section(json.loads(TrainedWith.of(estimator).estimator)) == estimator


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[1]",
        b'{"estimator": "paper", "correctness": null}',
        b'{"estimator": 3, "correctness": null, "threshold": 0}',
        b'{"estimator": "paper", "correctness": [1], "threshold": 0}',
        b'{"estimator": "paper", "correctness": null, "threshold": true}',
    ],
)
def test_what_is_damaged_is_named(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match=FILE):
        TrainedWith.read(tmp_path)
