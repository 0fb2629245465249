from hypothesis import settings

# Times are those of whatever else the machine does; a slow example is no failure.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
