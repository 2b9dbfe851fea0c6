"""Everything that knows verl. Importing this package is what plugs KTAE into verl.

verl finds it by itself after `pip install ktae[verl]` (entry point group `verl.plugins`). Setting
`VERL_USE_EXTERNAL_MODULES=ktae.trainers.verl` besides makes a failure loud: verl only notes a
plug-in that fails, and goes on without it.

Nothing is kept between steps: the plug-in adds an advantage estimator and trainer modes to verl's
registries, so whatever verl resumes from is all there is to resume.
"""

from ktae.trainers.verl import plugin

plugin.install()
