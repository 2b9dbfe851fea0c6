"""A whole GRPO loop with token credit, in one file: `python examples/own_trainer.py`.

It trains from nothing, on a CPU, in less than a minute. A rollout is correct if it repeats the
prompt's token and ends in time. The whole method is in `step`, and one line of it is ktae's.
"""

import torch

import ktae

END, WORDS, LENGTH, GROUP = 0, 12, 8, 16  # token 0 ends a rollout


class Policy(torch.nn.Module):  # in place of your model
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, 32)
        self.cell = torch.nn.GRU(32, 32, batch_first=True)
        self.head = torch.nn.Linear(32, WORDS)

    def forward(self, tokens):  # (B, L) -> logits of the next token, (B, L, WORDS)
        return self.head(self.cell(self.embed(tokens))[0])


@torch.no_grad()
def sample(policy, prompts):
    """(B, LENGTH) token ids and a mask that counts the first END and nothing behind it."""
    tokens = prompts[:, None]
    for _ in range(LENGTH):
        probabilities = policy(tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(probabilities, 1)], dim=1)
    token_ids = tokens[:, 1:]
    return token_ids, ((token_ids == END).cumsum(1) - (token_ids == END).int()) == 0


def log_probabilities(policy, prompts, token_ids):
    logits = policy(torch.cat([prompts[:, None], token_ids[:, :-1]], dim=1))
    return logits.log_softmax(-1).gather(2, token_ids[:, :, None])[:, :, 0]


def grade(prompts, token_ids, mask):
    """Correct: the rollout ends within the limit, and holds the prompt's token."""
    ended = ((token_ids == END) & mask).any(1)
    return ended & ((token_ids == prompts[:, None]) & mask).any(1)


def policy_loss(new, old, advantages, mask):
    """GRPO's clipped loss, averaged over all tokens; nothing in it is KTAE's."""
    ratio = (new - old).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    return -(gain * mask).sum() / mask.sum()


def step(policy, optimizer, n_prompts=8):
    prompts = torch.randint(1, WORDS, (n_prompts,)).repeat_interleave(GROUP)
    token_ids, mask = sample(policy, prompts)
    correct = grade(prompts, token_ids, mask)
    rewards = correct.float() - 0.02 * mask.sum(1)  # shaped: a little off for every token
    groups = torch.arange(n_prompts).repeat_interleave(GROUP)
    advantages = ktae.token_advantages(rewards, token_ids, mask, groups, correct=correct)
    with torch.no_grad():
        old = log_probabilities(policy, prompts, token_ids)
    for _ in range(2):
        new = log_probabilities(policy, prompts, token_ids)
        loss = policy_loss(new, old, advantages, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return correct.float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for number in range(60):
        share = step(policy, optimizer)
        if number % 10 == 9:
            print(f"step {number + 1}: {share:.0%} correct")
