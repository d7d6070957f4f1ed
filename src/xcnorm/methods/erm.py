"""ERM: learn the source as it is, by the mean cross-entropy."""

from dataclasses import dataclass

from xcnorm.methods.method import Method, register_method


@register_method("erm")
@dataclass
class ERM(Method):
    """Empirical risk minimisation: what everything else is compared with."""

    capturable = True
