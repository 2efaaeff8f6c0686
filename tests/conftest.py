"""What holds for all tests."""

from hypothesis import settings

# Speed is measured in bench/: on a busy machine a property that takes 0.3 s once is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
