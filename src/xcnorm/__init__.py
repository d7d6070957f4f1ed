"""Normalised cross-correlation convolutions for single domain generalization.

Everything here is imported on first use, so that `import xcnorm` (and `xcnorm --help`) does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from xcnorm._version import __version__

if TYPE_CHECKING:
    from xcnorm import (
        auditing,
        conversion,
        data,
        engine,
        export,
        functional,
        fusion,
        methods,
        metrics,
        models,
        nn,
        ops,
        report,
        sweep,
    )
    from xcnorm.auditing import audit
    from xcnorm.conversion import calibrate, conversion_report, convert, revert
    from xcnorm.export import export_model
    from xcnorm.fusion import fuse
    from xcnorm.models import create_model, from_pretrained, list_models, save_pretrained
    from xcnorm.nn import (
        RXCNormConv1d,
        RXCNormConv2d,
        RXCNormConv3d,
        RXCNormLinear,
        XCNormConv1d,
        XCNormConv2d,
        XCNormConv3d,
        XCNormLinear,
    )

__all__ = [
    "RXCNormConv1d",
    "RXCNormConv2d",
    "RXCNormConv3d",
    "RXCNormLinear",
    "XCNormConv1d",
    "XCNormConv2d",
    "XCNormConv3d",
    "XCNormLinear",
    "__version__",
    "audit",
    "auditing",
    "calibrate",
    "conversion",
    "conversion_report",
    "convert",
    "create_model",
    "data",
    "engine",
    "export",
    "export_model",
    "from_pretrained",
    "functional",
    "fuse",
    "fusion",
    "list_models",
    "methods",
    "metrics",
    "models",
    "nn",
    "ops",
    "report",
    "revert",
    "save_pretrained",
    "sweep",
]

_HOME = {  # every other name in small letters is a module, and all that is left are layers of xcnorm.nn
    "audit": "auditing",
    "calibrate": "conversion",
    "convert": "conversion",
    "conversion_report": "conversion",
    "create_model": "models",
    "export_model": "export",
    "from_pretrained": "models",
    "fuse": "fusion",
    "list_models": "models",
    "revert": "conversion",
    "save_pretrained": "models",
}


if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name.islower() and name not in _HOME:
            return import_module(f"{__name__}.{name}")
        value = getattr(import_module(f"{__name__}.{_HOME.get(name, 'nn')}"), name)
        globals()[name] = value  # the next access does not come through here
        return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
