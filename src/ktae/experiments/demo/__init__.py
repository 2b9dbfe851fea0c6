"""The embedded demo: small sums (`sums`) and a tiny base model that solves some of them.

Only `model` and `pretrain` need torch.
"""
