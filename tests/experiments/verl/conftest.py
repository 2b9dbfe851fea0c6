"""verl takes seconds to import: once, for the tests that need it."""

import pytest
from extras import require


@pytest.fixture(scope="session")
def verl():
    """The installed verl, with its trainers loaded and the plug-in in them."""
    require("verl")
    import verl
    import verl.trainer.ppo.ray_trainer
    import verl.trainer.ppo.v1

    import ktae.trainers.verl  # noqa: F401

    return verl
