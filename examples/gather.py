"""Token advantages where the rollouts of a group are split over processes.

A group's label has to be the same on all ranks, and no other group's.
"""

import torch
import torch.distributed as dist

import ktae


def gathered(tensor):
    """The rows of all ranks in order, padded on the right with 0 to the longest rank's width."""
    width = torch.tensor(tensor.shape[1], device=tensor.device)
    dist.all_reduce(width, op=dist.ReduceOp.MAX)
    tensor = torch.nn.functional.pad(tensor, (0, int(width) - tensor.shape[1])).contiguous()
    rows = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, tensor)  # every rank has as many rows
    return torch.cat(rows)


def token_advantages(rewards, token_ids, mask, groups, correct):
    """Give this rank's rows of the token advantages, from the rollouts of all ranks."""
    all_rewards, all_correct, all_groups = (
        gathered(x[:, None])[:, 0] for x in (rewards, correct.float(), groups)
    )
    advantages = ktae.token_advantages(
        all_rewards, gathered(token_ids), gathered(mask.byte()), all_groups, correct=all_correct
    )
    first = dist.get_rank() * len(token_ids)
    return advantages[first : first + len(token_ids), : token_ids.shape[1]]
