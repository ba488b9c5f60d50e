"""What all tests have in common: no example of hypothesis has a time limit."""

from hypothesis import settings

settings.register_profile("leveret", deadline=None)
settings.load_profile("leveret")
