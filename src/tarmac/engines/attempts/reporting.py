"""The reports of an engine that reads attempt directories. Inherited by the local, Ray and Slurm engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tarmac.engines.attempts.reports import read_reports
from tarmac.engines.attempts.view import Views
from tarmac.model.abilities import ReportPiece
from tarmac.model.ports import Notice, WorkerStatus
from tarmac.model.utilization import NodeUtilization


class ReportsAttempts:
    """Three methods of the port `Engine`, and the abilities `ReadsReports` and `MeasuresWorkers`."""

    _views: Views

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        return self._views.workers(attempt_id)

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        return self._views.notices(attempt_id)

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
        found = {attempt_id: self._views.utilization(attempt_id) for attempt_id in attempt_ids}
        return {attempt_id: nodes for attempt_id, nodes in found.items() if nodes}

    def reports(
        self, positions: Mapping[str, Mapping[str, int]], *, limit_bytes: int
    ) -> Mapping[str, Sequence[ReportPiece]]:
        return read_reports(self._views, positions, limit_bytes=limit_bytes)
