"""The public functions as the reference computes them: loops and dicts, slow and short."""

import functools

import by_backend

token_credit = functools.partial(by_backend.token_credit, backend="naive")
token_advantages = functools.partial(by_backend.token_advantages, backend="naive")
credit_table = functools.partial(by_backend.credit_table, backend="naive")
