"""An estimator that changes the rollout advantage goes with advantages of its own scale alone."""

import numpy as np
import pytest

from ktae import InputError, token_advantages
from ktae.estimators import ConflictTokens, Scaled, Tempo, preset

IDS = np.array([[1, 2], [1, 3], [1, 4], [1, 5]])
ARGUMENTS = ([1.0, 0, 0, 0], IDS, np.ones_like(IDS), np.zeros(4, dtype=int))


@pytest.mark.parametrize(("base", "scaled"), [("grpo", True), ("dr_grpo", False)])
def test_conflict_tokens_of_incorrect_rollouts_get_no_push(base, scaled):
    found = token_advantages(*ARGUMENTS, base=base, estimator=ConflictTokens(scale_by_std=scaled))
    np.testing.assert_allclose(found[1:, 0], 0, atol=1e-6)
    assert found[0, 0] > found[0, 1] > 0 and (found[1:, 1] < 0).all()


@pytest.mark.parametrize(
    ("base", "estimator"),
    [
        ("dr_grpo", ConflictTokens()),
        ("dr_grpo", Scaled(Tempo(), 0.5)),
        ("grpo", Tempo(scale_by_std=False)),
        ("rloo", ConflictTokens()),
        ("rloo", ConflictTokens(scale_by_std=False)),
    ],
)
def test_another_scale_is_refused(base, estimator):
    with pytest.raises(InputError, match=f"and base is '{base}'; expected"):
        token_advantages(*ARGUMENTS, base=base, estimator=estimator)


def test_numbers_of_your_own_and_other_estimators_are_not_looked_at():
    token_advantages(*ARGUMENTS, base=[0.5, 0, 0, 0], estimator="conflict-tokens")
    for base in ("grpo", "dr_grpo", "rloo"):
        token_advantages(*ARGUMENTS, base=base, estimator=preset("trigrams"))


def test_trl_s_scaling_is_looked_at(tmp_path):
    pytest.importorskip("trl.trainer", reason="needs the extra 'trl'")
    from trl import GRPOConfig

    from ktae.trainers.trl.checks import check_arguments

    for scaling, scaled in (("group", True), ("none", False)):
        args = GRPOConfig(output_dir=str(tmp_path), scale_rewards=scaling, bf16=False)
        check_arguments(Tempo(scale_by_std=scaled), args=args)
        with pytest.raises(InputError, match=f"scale_rewards is '{scaling}'"):
            check_arguments(Tempo(scale_by_std=not scaled), args=args)
    each = {"multi_objective_aggregation": "normalize_then_sum"}
    args = GRPOConfig(output_dir=str(tmp_path), bf16=False, **each)
    with pytest.raises(InputError, match="multi_objective_aggregation is 'normalize_then_sum'; e"):
        check_arguments(Tempo(), args=args)
    halved = {"scale_rewards": "none", "reward_weights": [0.5]}
    both = GRPOConfig(output_dir=str(tmp_path), bf16=False, **halved | {"reward_weights": [0.2, 1]})
    own = {"reward_funcs": [len, max], "correctness": "max"}
    check_arguments(Tempo(scale_by_std=False), args=both, **own)
    args = GRPOConfig(output_dir=str(tmp_path), bf16=False, **halved)
    with pytest.raises(
        InputError, match=r"'none' with reward_weights \[0\.5\]; expected GRPO's or"
    ):
        check_arguments(Tempo(scale_by_std=False), args=args)
    args = GRPOConfig(output_dir=str(tmp_path), scale_rewards="batch", bf16=False)
    with pytest.raises(
        InputError, match=r"scale_rewards is 'batch'; expected GRPO's or Dr\. GRPO's"
    ):
        check_arguments(Tempo(), args=args)


def test_trl_s_further_rewards_are_warned_of(tmp_path, logged):
    pytest.importorskip("trl.trainer", reason="needs the extra 'trl'")
    from trl import GRPOConfig

    from ktae.trainers.trl.checks import check_arguments

    args = GRPOConfig(output_dir=str(tmp_path), bf16=False)
    check_arguments(preset("paper"), args=args, reward_funcs=[len, len])
    check_arguments(Tempo(), args=args, reward_funcs=[len])
    assert not logged
    weighed = GRPOConfig(output_dir=str(tmp_path), bf16=False, reward_weights=[0.0, 1.0])
    check_arguments(Tempo(), args=weighed, reward_funcs=[len, max], correctness="max")
    assert not logged
    check_arguments(Tempo(), args=args, reward_funcs=[len, max], correctness="max")
    [record] = logged
    assert "the other rewards (len) differ" in record.getMessage()
    short = GRPOConfig(output_dir=str(tmp_path), bf16=False, reward_weights=[1.0])
    check_arguments(Tempo(), args=short, reward_funcs=[len, max])  # TRL refuses it, later


def test_verl_s_scaling_is_looked_at():
    pytest.importorskip("torch", reason="needs the extra 'verl'")
    from ktae.trainers.verl.options import from_algorithm

    raw = {"estimator": "tempo", "scale_by_std": False}
    for algorithm, fits in (
        ({"credit": "tempo"}, True),
        ({"credit": raw, "norm_adv_by_std_in_grpo": False}, True),
        ({"credit": "tempo", "norm_adv_by_std_in_grpo": False}, False),
        ({"credit": raw}, False),
        ({"credit": {"estimator": "tempo", "base": "rloo"}}, False),
        ({"credit": {"estimator": "paper", "base": "rloo"}}, True),
    ):
        if fits:
            from_algorithm(algorithm)
            continue
        with pytest.raises(InputError, match="changes the rollout advantage"):
            from_algorithm(algorithm)
