"""The conversion itself: which layers are replaced, by what, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from xcnorm.conversion.calibration import calibrate, list_images
from xcnorm.conversion.course import Conversion
from xcnorm.conversion.flow import find_flow
from xcnorm.conversion.policy import Policy, Skip
from xcnorm.conversion.reasons import find_classifier
from xcnorm.conversion.replacement import BARE, Replacement
from xcnorm.conversion.report import ConversionReport, attach_report
from xcnorm.conversion.reversal import keep_plain
from xcnorm.conversion.tree import list_slots
from xcnorm.errors import unknown_name
from xcnorm.nn import FORMS, Relative, XCNormLayer, find_form
from xcnorm.nn.options import rectify_of_first

_DENSE = ("linear", "xcnorm")
_WEIGHTED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_OURS = (XCNormLayer, Relative)
_STAGES = ("layer", "model")


def convert(
    model: nn.Module,
    layer: str = "r_xcnorm",
    skip: Skip | Iterable[Skip] = (),
    *,
    policy: str = "all_but_classifier",
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    min_fan_in: int | None = None,
    dense: str = "linear",
    rectify_first: str | None = None,
    padding_mode: str | None = None,
    stages: str = "layer",
    batches: Iterable[Any] | None = None,
    **options: Any,
) -> nn.Module:
    """Put XCNorm layers or relatives in place of a model's convolutions. The model is changed and returned; retrain it.

    A convolution's weights become the initial filters of the layer in its place. The norm and the activation that
    directly follow it, and alone take its output, are replaced by identities: the layer brings its own. A trace of the
    forward shows which they are; where there is none, Sequentials and known blocks do. Of relatives, which are for
    images alone, each says whether they stay. Kept as they are:

    - the classifier, which is the last linear layer, or a last 1x1 convolution;
    - 1x1 convolutions on shortcuts, so that the shortcut stays linear, and on pooled values;
    - convolutions whose patch has fewer than 16 values, which relatives may have;
    - with ``norm="instance"``, the activation before an average pool and after the last converted convolution: the mean
      of a map normalised per image is zero. A convolution that is averaged without any activation gets ``norm="none"``.

    `conversion_report` lists every decision, and `revert` puts the plain layers back.

    Args:
        model: Any module tree.
        layer: ``"xcnorm"``, ``"r_xcnorm"`` or another of `xcnorm.nn.FORMS`.
        skip: Layers to leave alone: names with wildcards (``"layer4.*"``), classes, or functions of name and module;
            one or several.
        policy: ``"all_but_classifier"``; ``"first_stage"``, the layers before the second stage: where the resolution is
            reduced again after a convolution that did not; or ``"all"``, with shortcuts, linear layers and the
            classifier, whose outputs are then neither rectified nor normalised.
        filter_fn: Function of module and name, called for every layer that would be converted: whether it is.
        min_fan_in: Layers with fewer values in a patch are kept. Left out, 16, or 1 for relatives.
        dense: Hidden linear layers stay ``"linear"`` or become ``"xcnorm"`` too.
        rectify_first: ``rectify`` of the first layer, if it is converted. Left out, it is ``"abs"``, which measured
            best, unless ``preset="paper"`` or ``rectify`` is given.
        padding_mode: Padding of layers that padded with zeros; ``"zeros"`` leaves them. Left out, it is ``"replicate"``
            for XCNorm layers, and relatives pad as before.
        stages: Whose rectifier and norm come after the similarity: the ``"layer"``'s own, which take the place of the
            norm and the activation that follow; or the ``"model"``'s, which stay, and the layers are the similarity
            alone. The latter starts much nearer to the model as it was, once it is calibrated.
        batches: A few batches of training images to `xcnorm.calibrate` the new layers on. In what cannot be traced, the
            first one shows which 1x1 convolutions see maps of a single position. Left out, nothing is calibrated.
        **options: Options of the layers; those of XCNorm layers are in `xcnorm.nn.RobustOptions`.

    Returns:
        The model; or the new layer, if the model was a single convolution.

    Raises:
        ValueError: An argument or an option's value is unknown, or nothing could be converted.

    Example:
        >>> from xcnorm import conversion_report
        >>> model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(),
        ...                       nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        >>> model = convert(model, layer="xcnorm")
        >>> print(conversion_report(model))
        layer  was          is            action     parameters      cost   why
        0      Conv2d       XCNormConv2d  converted  448 to 449      1.52x  weights kept as initial filters; bias ...
        1      BatchNorm2d  Identity      removed    32 to 0                follows 0, which normalises its own channels
        2      ReLU         Identity      removed                           follows 0, which rectifies on its own
        3      Conv2d       XCNormConv2d  converted  ...
        4      ReLU         ReLU          kept                              the mean of a map normalised per image ...
        5      AdaptiveAvgPool2d  ...
        6      Flatten ...
        7      Linear       Linear        kept       330                    the classifier
        2 converted, 2 removed, 4 kept
    """
    forms = [name for name in FORMS if name != "conv"]
    if layer not in forms:
        raise ValueError(unknown_name("layer", layer, forms))
    form = find_form(layer)
    if dense not in _DENSE:
        raise ValueError(unknown_name("dense", dense, _DENSE))
    if stages not in _STAGES:
        raise ValueError(unknown_name("stages", stages, _STAGES))
    if form.whole and stages == "model":
        for argument in BARE:
            if argument in options or (argument == "rectify" and rectify_first is not None):
                raise ValueError(f"{argument} is left to the model with stages='model'; leave it out")
    elif form.whole:
        rectify_first = rectify_of_first(rectify_first, options)
    else:
        form.check_options(options)
        for argument, asked in (
            ("dense", dense != "linear"),
            ("rectify_first", rectify_first is not None),
            ("stages", stages != "layer"),
        ):
            if asked:
                raise ValueError(f"{argument} is for XCNorm layers, not for layer={layer!r}; leave it out")
    images = None if batches is None else list_images(batches)
    slots = {slot.name: slot for slot in list_slots(model)}
    wanted = Policy.of(slots, policy, skip, filter_fn, min_fan_in, dense == "xcnorm")
    weighted = [s.module for s in slots.values() if type(s.module) in _WEIGHTED or isinstance(s.module, _OURS)]
    first, classifier = weighted[0] if weighted else None, find_classifier(weighted)
    how = Replacement(
        form, padding_mode or form.padding_mode, options, rectify_first, first, classifier, stages == "layer"
    )
    conversion = Conversion(slots, wanted, how, find_flow(slots, images[0] if images else None))
    candidates = list(conversion.candidates())
    try:
        for slot in candidates:
            conversion.replace(slot)
    except BaseException:  # Ctrl-C included: half of a conversion is of no use to anybody
        conversion.undo()
        raise
    conversion.restore_last_activation()
    conversion.note_the_rest()
    if not conversion.converted:
        raise ValueError(
            "nothing to convert: the model has no convolution that is neither skipped nor too small; "
            f"see dense='xcnorm' for linear layers. Kept were: {conversion.why_kept()}"
        )
    changes = conversion.changes
    keep_plain(conversion.root, conversion.plain)
    attach_report(conversion.root, ConversionReport(tuple(changes[name] for name in slots if name in changes)))
    return conversion.root if images is None else calibrate(conversion.root, images)
