from hypothesis import HealthCheck, settings
from thorough import inputs

settings.register_profile(
    "cute",
    deadline=None,
    max_examples=inputs(20, 120),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
settings.load_profile("cute")
