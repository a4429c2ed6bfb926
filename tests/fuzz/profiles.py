"""How many examples a fuzz test tries: few and always the same in `make test`, many and new ones in `make fuzz`."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

USUAL = 100  # hypothesis's own number, which the quick profile keeps
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example)


WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


def register(times: int) -> None:
    """The profile of `make fuzz`: so many times the examples, drawn anew in every run, failures kept to try again."""
    settings.register_profile("fuzz", max_examples=USUAL * times, deadline=None, print_blob=True)


def examples(n: int) -> settings:
    """`n` examples in the quick profile, as many times more as the profile in use asks for."""
    times = settings().max_examples / USUAL
    phases = tuple(Phase) if times > 1 else WITHOUT_SHRINKING  # which takes minutes, and a failure is plain as it is
    return settings(max_examples=max(int(n * times), 1), phases=phases, suppress_health_check=SLOW)
