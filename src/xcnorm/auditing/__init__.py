"""Audits: how well any model recognises pictures that go wrong, how sure it is, and what breaks first."""

from xcnorm.auditing.gates import Checked, check, junit
from xcnorm.auditing.opening import FORMS, open_model
from xcnorm.auditing.result import Audit, AuditedModel, Scored, ScoredClass, Specimen
from xcnorm.auditing.run import audit
from xcnorm.auditing.saved import load_audit
from xcnorm.auditing.verdict import verdict

__all__ = [
    "FORMS",
    "Audit",
    "AuditedModel",
    "Checked",
    "Scored",
    "ScoredClass",
    "Specimen",
    "audit",
    "check",
    "junit",
    "load_audit",
    "open_model",
    "verdict",
]
