"""ADA: add images that are hard for the network, but close to the source in what it makes of them.

Volpi et al., Generalizing to Unseen Domains via Adversarial Data Augmentation, NeurIPS 2018; also called GUD.
"""

from __future__ import annotations

from dataclasses import dataclass

from xcnorm.methods.ascent import Ascent
from xcnorm.methods.method import register_method


@register_method("ada")
@dataclass
class ADA(Ascent):
    """Adversarial data augmentation: ERM on a set of images that grows in phases.

    Attributes:
        phases: How often images are added.
        pool: Perturb so many images in a phase, drawn from the source's and those that were added before; 0 for all.
    """

    phases: int = 6
    pool: int = 10_000
