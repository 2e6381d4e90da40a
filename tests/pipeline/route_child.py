"""A worker without Spark: routes what it is told, and knows no class of the tests."""

from __future__ import annotations

import base64
import json
import sys

from polycast.pipeline.code_distribution import CodeBundle
from polycast.pipeline.route_stream import RouteRange, reports_of


def main() -> None:
    for line in sys.stdin:
        path, identity, imports, pieces = json.loads(line)
        rows = reports_of(
            path, identity, CodeBundle(tuple(imports)), [RouteRange(*piece) for piece in pieces]
        )
        told = [
            (row.low, row.high, row.error, base64.b64encode(row.recipients).decode())
            for row in rows
        ]
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
