"""A model of its own with the same weights, on the CPU.

Not `copy.deepcopy`: a trainer patches its model's `forward`, and a copy's would compute with the
trainer's weights.
"""


def copy_of(model):
    copied = type(model)(model.config)
    copied.load_state_dict(model.state_dict())
    return copied
