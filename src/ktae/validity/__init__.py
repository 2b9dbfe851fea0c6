"""How far credit can be believed on the rollouts at hand, without training anything."""
