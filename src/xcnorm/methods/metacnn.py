"""MetaCNN: rebuild feature maps from words learned on the source (after Wan et al., CVPR 2022).

Neither program nor settings were published: this is a reconstruction from the publication's abstract. See
`xcnorm.nn.Dictionary`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

from xcnorm.conversion import add_dictionaries
from xcnorm.errors import UserError
from xcnorm.methods.method import Method, register_method
from xcnorm.models import Network
from xcnorm.nn import Dictionary


@register_method("metacnn")
@dataclass
class MetaCNN(Method):
    """ERM on a network with dictionaries behind its convolutions, which are part of it and learn by themselves.

    Attributes:
        words: Words in a dictionary.
        chosen: How many of them a feature is rebuilt from.
        temperature: Of the weights that their similarities give.
        ridge: How strongly codes are held back.
        momentum: Weight of the newest batch in what a dictionary learns from.
        share: How much of a feature is replaced by what was rebuilt; at 0 the network stays as it is.
    """

    words: int = 128
    chosen: int = 16
    temperature: float = 0.1
    ridge: float = 0.01
    momentum: float = 0.01
    share: float = 1.0

    capturable = True
    cost = 2.0
    neutral = {"share": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        try:
            Dictionary(1, **asdict(self), device="meta")
        except ValueError as error:
            raise UserError(f"method metacnn: {error}") from error

    def adapt(self, network: Network) -> Network:
        """The network with a dictionary behind every convolution."""
        return network if self.share == 0 else cast(Network, add_dictionaries(network, **asdict(self)))
