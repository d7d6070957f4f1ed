"""Any torch model to the same model on XCNorm layers, with a report of what was done and why."""

from xcnorm.conversion.calibration import calibrate
from xcnorm.conversion.converter import convert
from xcnorm.conversion.dictionaries import add_dictionaries
from xcnorm.conversion.report import Change, ConversionReport, conversion_report
from xcnorm.conversion.reversal import revert

__all__ = ["Change", "ConversionReport", "add_dictionaries", "calibrate", "conversion_report", "convert", "revert"]
