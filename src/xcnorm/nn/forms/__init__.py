"""Forms of a layer: what may stand in the place of a network's convolutions. One file each."""

from xcnorm.nn.forms.form import FORMS, LayerForm, find_form, register_form, register_relative
from xcnorm.nn.forms.relative import Relative

__all__ = ["FORMS", "LayerForm", "Relative", "find_form", "register_form", "register_relative"]
