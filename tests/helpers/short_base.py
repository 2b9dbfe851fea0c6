"""A base model of sums after some seconds of pretraining: most groups have both outcomes."""

import fcntl


def short_base(config):
    """Its folder, in the cache of pytest. Sessions that run at one time make it once."""
    from ktae.experiments.demo import SUMS
    from ktae.experiments.demo.pretrain import base_model_folder, pretrain
    from ktae.files.atomic import atomic_folder

    steps = 400
    folder = config.cache.mkdir("ktae") / f"{base_model_folder(SUMS, seed=0).name}-steps{steps}"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with atomic_folder(folder) as made:
                for part in pretrain(SUMS, seed=0, steps=steps):
                    part.save_pretrained(made)
    return folder
