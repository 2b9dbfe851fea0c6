"""Further demo languages, which ktae finds by their entry points (group `ktae.languages`)."""
