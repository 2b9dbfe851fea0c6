"""examples/own_trainer.py and gather.py: each token's credit reaches the loss at that token."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import oracle
import pages
import pytest
import torch

from ktae import token_advantages

SCRIPT, GATHER = (
    (pages.ROOT / "examples" / f"{name}.py").read_text("utf-8")
    for name in ("own_trainer", "gather")
)


@pytest.fixture
def trainer() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "own_trainer"}
    exec(SCRIPT, namespace)
    torch.manual_seed(3)
    return namespace


def first_calls(trainer: dict[str, Any], *names: str) -> list[tuple[Any, Any]]:
    """What each of these functions of the example is given and gives first in a `step`."""
    calls: dict[str, tuple[Any, Any]] = {}
    for name in names:

        def recorded(*arguments: Any, name: str = name, function: Any = trainer[name]) -> Any:
            result = function(*arguments)
            calls.setdefault(name, (arguments, result))
            return result

        trainer[name] = recorded
    policy = trainer["Policy"]()
    trainer["step"](policy, torch.optim.Adam(policy.parameters(), lr=1e-2))
    return [calls[name] for name in names]


def test_each_tokens_advantage_reaches_the_loss_at_that_token(trainer: dict[str, Any]) -> None:
    """The gradient of the loss by the log-probabilities is minus the advantages over the tokens'
    number; the advantages are the oracle's, of the rewards, verdicts and groups of the step."""
    calls = first_calls(trainer, "sample", "grade", "policy_loss")
    (_, (token_ids, mask)), ((prompts, *_), correct), ((_, old, advantages, loss_mask), _) = calls
    groups = torch.arange(8).repeat_interleave(16)
    assert all(len(prompts[groups == group].unique()) == 1 for group in range(8))
    rewards = correct.float() - 0.02 * mask.sum(1)
    expected = torch.from_numpy(
        oracle.token_advantages(
            rewards.numpy(),
            token_ids.numpy(),
            mask.numpy(),
            groups.numpy(),
            correct=correct.numpy(),
        )
    )
    assert 0.02 < correct.float().mean() < 0.98, "or there would be nothing to compare"
    first = expected[:, :1]
    assert ((expected != first) & mask).any(), "the tokens of a rollout do not differ"
    new = old.clone().requires_grad_()
    trainer["policy_loss"](new, old, advantages, loss_mask).backward()
    torch.testing.assert_close(new.grad, -expected * mask / mask.sum(), rtol=0, atol=1e-7)


@pytest.mark.nightly
def test_the_script_learns() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(SCRIPT, {"__name__": "__main__"})
    correct = [int(line.split()[2].rstrip("%")) for line in printed.getvalue().splitlines()]
    assert len(correct) == 6
    assert correct[-1] > correct[0] + 30  # other versions of torch draw other numbers


RANK = """
import sys, torch, torch.distributed as dist
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
exec(open(f"{folder}/gather.py").read())
rollouts = torch.load(f"{folder}/rollouts.pt", weights_only=True)
own = {name: tensor[rank::2] for name, tensor in rollouts.items()}  # every group on both ranks
width = int(own["mask"].sum(1).max())  # and another width on each
own |= {name: own[name][:, :width] for name in ("token_ids", "mask")}
torch.save(token_advantages(**own), f"{folder}/{rank}.pt")
"""


@pytest.mark.nightly
def test_ranks_that_share_groups_get_what_one_process_gets(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([5, 8, 3, 7, 4, 8, 5, 6])
    rollouts = {
        "rewards": torch.rand(8, generator=generator),
        "token_ids": torch.randint(9, (8, 8), generator=generator),
        "mask": torch.arange(8) < lengths[:, None],
        "groups": torch.tensor([4, 4, 4, 4, 1, 1, 1, 1]),
        "correct": torch.tensor([1, 1, 0, 0, 1, 0, 0, 0]).bool(),
    }
    torch.save(rollouts, tmp_path / "rollouts.pt")
    (tmp_path / "gather.py").write_text(GATHER, encoding="utf-8")
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)])
        for rank in range(2)
    ]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    expected = token_advantages(**rollouts)
    widths = set()
    for rank in range(2):
        got = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        widths.add(got.shape[1])
        torch.testing.assert_close(got, expected[rank::2, : got.shape[1]], rtol=0, atol=0)
    assert len(widths) == 2
