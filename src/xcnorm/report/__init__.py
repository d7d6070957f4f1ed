"""Reports: tables, figures and an HTML page, made from run folders alone.

`find_runs` reads what is there, `build` decides which tables and charts it makes, and `write` writes them down.
"""

from xcnorm.report.arms import Arm
from xcnorm.report.build import SELECTIONS, Report, Section, build
from xcnorm.report.charts import Chart, Series
from xcnorm.report.runs import Broken, Run, Runs, find_runs
from xcnorm.report.tables import Cell, Column, Measure, Row, Table
from xcnorm.report.write import write

__all__ = [
    "SELECTIONS",
    "Arm",
    "Broken",
    "Cell",
    "Chart",
    "Column",
    "Measure",
    "Report",
    "Row",
    "Run",
    "Runs",
    "Section",
    "Series",
    "Table",
    "build",
    "find_runs",
    "write",
]
