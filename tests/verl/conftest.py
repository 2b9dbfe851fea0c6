"""verl takes seconds to import: once, for the tests that need it."""

import importlib.util

import pytest


@pytest.fixture(scope="session")
def verl():
    """The installed verl, with its trainers loaded and the plug-in in them."""
    if importlib.util.find_spec("verl") is None:
        pytest.skip("needs the extra 'verl'")
    import verl
    import verl.trainer.ppo.ray_trainer
    import verl.trainer.ppo.v1

    import ktae.verl  # noqa: F401

    return verl
