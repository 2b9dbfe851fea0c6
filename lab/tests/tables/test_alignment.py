"""The ratio of cosines that a speed is held against."""

import numpy as np
import pytest

from ktae_lab.align.products import Alignment, Blocks, Products
from ktae_lab.tables import alignment


def measured(tr, *, reference_noise=0.0, batches=4):
    """A base model on which the credit is orthogonal to the advantages and as long, with this
    product with the reference, of four blocks; GRPO's is .5."""
    shares = np.array([0.25 - reference_noise, 0.25 + reference_noise, 0.25, 0.25])
    products = [Products(bb=1.0, bt=0.0, tt=1.0, br=0.5, tr=tr, rr=1.0)] * batches
    blocks = Blocks(
        (np.eye(4) / 4).tolist(),
        br=[[0.125] * 4] * batches,
        tr={"paper": [(tr * shares).tolist()] * batches},
    )
    return Alignment({}, {"adam": {"paper": products}}, 0.5, {"adam": blocks})


def ratio(found, factor=1.0, weights=(1.0, 1.0)):
    trained = alignment.Trained("paper", factor, ())
    return alignment.ratio_of(found, trained, "adam", np.array(weights))


def test_ratios_are_of_cosines_as_trained():
    """One base model's credit points where the reference does, the other's is all noise."""
    two = (measured(1.0), measured(0.0))
    assert ratio(two).value == pytest.approx((3 + 1) / 2**0.5 / 2)
    assert ratio(two, factor=2).value == pytest.approx((5 + 1) / 5**0.5 / 2)


def test_base_models_count_by_what_grpo_gains_there():
    two = (measured(1.0), measured(0.0))
    assert ratio(two, weights=(3.0, 1.0)).value == pytest.approx((9 + 1) / 2**0.5 / 4)


def test_the_interval_has_the_references_noise():
    still, noisy = (ratio((measured(1.0, reference_noise=x),), weights=(1.0,)) for x in (0, 0.1))
    assert still.high - still.low == pytest.approx(0, abs=1e-9)
    assert noisy.low < noisy.value < noisy.high
